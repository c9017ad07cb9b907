// RUN: mpc-opt %s -mpc-add-loss=loss=output:loss | FileCheck %s

// Labels that the model's own loss reads are labels; what they are compared
// with is the prediction.
// CHECK-LABEL: func @step
// CHECK-SAME: tensor<4xi64> {mpc.input = "t", mpc.role = "label"}
// CHECK-LABEL: func @eval
// CHECK-SAME: tensor<4xi64> {mpc.input = "t", mpc.role = "label"}
// CHECK-SAME: tensor<4x8xf32> {mpc.output = "prediction", mpc.role = "prediction"}
// CHECK: %[[S:.*]] = mpc.relu
// CHECK: return %{{.*}}, %[[S]]
func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = "data"}, %t: tensor<4xi64> {mpc.input = "t", mpc.role = "data"})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = "output"}) {
  %s = mpc.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss, %p = mpc.softmax_cross_entropy_loss %s, %t : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x8xf32>)
  return %loss : tensor<f32>
}
