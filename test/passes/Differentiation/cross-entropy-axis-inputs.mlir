// The shape of a label input of the model decides the axis of classes.
//
// RUN: mpc-opt %s -split-input-file -mpc-add-loss=loss=softmax_cross_entropy | FileCheck %s

// Pixels with classes on axis 1, which stay there.
// CHECK-LABEL: func @step
// CHECK-NOT: mpc.reshape
// CHECK-NOT: mpc.transpose
// CHECK: mpc.softmax_cross_entropy_loss %{{.*}} : (tensor<2x3x8x9xf32>, tensor<2x8x9xi64>)
func.func @forward(%x: tensor<2x3x8x9xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %t: tensor<2x8x9xi64> {mpc.input = "target", mpc.role = #mpc.role<data>})
    -> (tensor<2x3x8x9xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.relu %x : (tensor<2x3x8x9xf32>) -> tensor<2x3x8x9xf32>
  return %y : tensor<2x3x8x9xf32>
}

// -----

// Pixels with the classes last.
// CHECK-LABEL: func @step
// CHECK: mpc.softmax_cross_entropy_loss %{{.*}} : (tensor<144x3xf32>, tensor<144xi64>)
func.func @forward(%x: tensor<2x8x9x3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %t: tensor<2x8x9xi64> {mpc.input = "target", mpc.role = #mpc.role<data>})
    -> (tensor<2x8x9x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.relu %x : (tensor<2x8x9x3xf32>) -> tensor<2x8x9x3xf32>
  return %y : tensor<2x8x9x3xf32>
}

// -----

// The model flattens the scores: each sample's labels are adjacent.
// CHECK-LABEL: func @step
// CHECK-SAME: tensor<2x7xi64> {mpc.input = "target", mpc.role = #mpc.role<label>}
// CHECK: mpc.softmax_cross_entropy_loss %{{.*}} : (tensor<14x5xf32>, tensor<14xi64>)
// CHECK-LABEL: func @eval
// CHECK-SAME: tensor<2xf32> {mpc.output = "sample_loss"
// CHECK-SAME: tensor<2x5x7xf32> {mpc.output = "prediction"
func.func @forward(%x: tensor<2x7x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<14x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.reshape %x : (tensor<2x7x5xf32>) -> tensor<14x5xf32>
  return %y : tensor<14x5xf32>
}
