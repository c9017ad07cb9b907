// The shape of labels, from a model input or from the data, tells the axis of
// classes. Evaluation's prediction has the classes on axis 1.
//
// RUN: mpc-opt %s -split-input-file -mpc-add-loss="loss=softmax_cross_entropy label-shape=7" | FileCheck %s
// RUN: mpc-opt %s -split-input-file -mpc-add-loss="loss=softmax_cross_entropy@y:2" | FileCheck %s

// A language model: [batch, time, vocabulary] with a label for each time.
// CHECK-LABEL: func @step
// CHECK-SAME: tensor<4x7xi64> {mpc.input = "target", mpc.role = #mpc.role<label>}
// CHECK: %[[Y:.*]] = mpc.relu
// CHECK: %[[R:.*]] = mpc.reshape %[[Y]] {{.*}} : (tensor<4x7x5xf32>) -> tensor<28x5xf32>
// CHECK: %[[T:.*]] = mpc.reshape %{{.*}} : (tensor<4x7xi64>) -> tensor<28xi64>
// CHECK: mpc.softmax_cross_entropy_loss %[[R]], %[[T]] {mpc.phase = #mpc.phase<loss>}
// CHECK-LABEL: func @eval
// CHECK-SAME: tensor<4xf32> {mpc.output = "sample_loss"
// CHECK-SAME: tensor<4x5x7xf32> {mpc.output = "prediction"
// CHECK: %[[L:loss]], %{{.*}} = mpc.softmax_cross_entropy_loss %{{.*}} {{{.*}}reduction = #mpc.reduction<none>}
// CHECK: %[[ROWS:.*]] = mpc.reshape %{{.*}} {{.*}} : (tensor<28x5xf32>) -> tensor<4x7x5xf32>
// CHECK: %[[P:.*]] = mpc.transpose %[[ROWS]]
// CHECK: mpc.reshape %[[L]] {{.*}} : (tensor<28xf32>) -> tensor<4x7xf32>
func.func @forward(%x: tensor<4x7x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4x7x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.relu %x : (tensor<4x7x5xf32>) -> tensor<4x7x5xf32>
  return %y : tensor<4x7x5xf32>
}
