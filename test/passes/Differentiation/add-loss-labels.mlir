// RUN: mpc-opt %s -split-input-file -mpc-add-loss=loss=output:loss | FileCheck %s

// An input that the model's own loss reads as labels gets the label role. The
// other operand is the prediction.
// CHECK-LABEL: func @step
// CHECK-SAME: tensor<4xi64> {mpc.input = "t", mpc.role = #mpc.role<label>}
// CHECK-LABEL: func @eval
// CHECK-SAME: tensor<4xi64> {mpc.input = "t", mpc.role = #mpc.role<label>}
// CHECK-SAME: tensor<4x8xf32> {mpc.output = "prediction", mpc.role = #mpc.role<prediction>}
// CHECK-SAME: tensor<4xf32> {mpc.output = "correct", mpc.role = #mpc.role<correct>}
// CHECK: %[[S:.*]] = mpc.relu
// CHECK: %[[CORRECT:.*]] = mpc.accuracy %[[S]]
// CHECK: return %{{.*}}, %[[S]], %[[CORRECT]]
func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %t: tensor<4xi64> {mpc.input = "t", mpc.role = #mpc.role<data>})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<output>}) {
  %s = mpc.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss, %p = mpc.softmax_cross_entropy_loss %s, %t : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x8xf32>)
  return %loss : tensor<f32>
}

// -----

// Labels of B x T may be flattened before the loss, as in language models:
// the input keeps its order. With several losses there is no single
// prediction.
// CHECK-LABEL: func @eval
// CHECK: mpc.accuracy %{{.*}}, %{{.*}} : (tensor<6x8xf32>, tensor<6xi64>) -> tensor<6xf32>
func.func @forward(%x: tensor<2x3x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %t: tensor<2x3xi64> {mpc.input = "t", mpc.role = #mpc.role<data>})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<output>}) {
  %s = mpc.reshape %x : (tensor<2x3x8xf32>) -> tensor<6x8xf32>
  %l = mpc.reshape %t : (tensor<2x3xi64>) -> tensor<6xi64>
  %loss, %p = mpc.softmax_cross_entropy_loss %s, %l : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<6x8xf32>)
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func @eval
// CHECK-NOT: mpc.accuracy
// CHECK: return
func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %t: tensor<4xi64> {mpc.input = "t", mpc.role = #mpc.role<data>}, %u: tensor<4xi64> {mpc.input = "u", mpc.role = #mpc.role<data>})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<output>}) {
  %a, %p = mpc.softmax_cross_entropy_loss %x, %t : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x8xf32>)
  %b, %q = mpc.softmax_cross_entropy_loss %x, %u : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x8xf32>)
  %loss = mpc.add %a, %b : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}
