// Labels and scores are paired by sample. Scores with samples on another axis
// have another order, which equal shapes would hide.
//
// RUN: mpc-opt %s -split-input-file -mpc-add-loss="loss=softmax_cross_entropy@y:-1 label-shape=2" | FileCheck %s

// The 2 time steps of 4 samples are outermost: they are moved behind the
// samples, to match the labels.
// CHECK-LABEL: func @step
// CHECK-SAME: tensor<4x2xi64>
// CHECK: %[[APART:.*]] = mpc.reshape %{{.*}} : (tensor<8x5xf32>) -> tensor<2x4x5xf32>
// CHECK: mpc.transpose %[[APART]] {{.*}}perm = array<i64: 1, 0, 2>} : (tensor<2x4x5xf32>) -> tensor<4x2x5xf32>
// CHECK: mpc.softmax_cross_entropy_loss
func.func @forward(%x: tensor<4x2x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<8x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %t = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<4x2x5xf32>) -> tensor<2x4x5xf32>
  %r = mpc.reshape %t : (tensor<2x4x5xf32>) -> tensor<8x5xf32>
  %y = mpc.relu %r : (tensor<8x5xf32>) -> tensor<8x5xf32>
  return %y : tensor<8x5xf32>
}

// -----

// CHECK-LABEL: func @step
// CHECK: %[[Y:.*]] = mpc.transpose %arg0
// CHECK: mpc.transpose %[[Y]] {{.*}}perm = array<i64: 1, 0, 2>}
// CHECK: mpc.softmax_cross_entropy_loss
func.func @forward(%x: tensor<2x2x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<2x2x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<2x2x5xf32>) -> tensor<2x2x5xf32>
  return %y : tensor<2x2x5xf32>
}

// -----

// Rows of a table for ids whose time axis comes first.
// CHECK-LABEL: func @step
// CHECK: %[[Y:.*]] = mpc.gather
// CHECK: mpc.transpose %[[Y]] {{.*}}perm = array<i64: 1, 0, 2>}
// CHECK: mpc.softmax_cross_entropy_loss
func.func @forward(%ids: tensor<2x2xi64> {mpc.input = "ids", mpc.role = #mpc.role<data>})
    -> (tensor<2x2x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %table = mpc.constant dense<1.0> : tensor<7x5xf32>
  %steps = mpc.transpose %ids {perm = array<i64: 1, 0>} : (tensor<2x2xi64>) -> tensor<2x2xi64>
  %y = mpc.gather %table, %steps {axis = 0 : i64} : (tensor<7x5xf32>, tensor<2x2xi64>) -> tensor<2x2x5xf32>
  return %y : tensor<2x2x5xf32>
}

// -----

// Columns of the samples' data follow the axis of the look-up.
// CHECK-LABEL: func @step
// CHECK: %[[Y:.*]] = mpc.gather
// CHECK: mpc.transpose %[[Y]] {{.*}}perm = array<i64: 2, 0, 1>}
// CHECK: mpc.softmax_cross_entropy_loss
func.func @forward(%x: tensor<2x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<2x2x2xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %places = mpc.constant dense<1> : tensor<2x2xi64>
  %t = mpc.transpose %x {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %y = mpc.gather %t, %places {axis = 0 : i64} : (tensor<4x2xf32>, tensor<2x2xi64>) -> tensor<2x2x2xf32>
  return %y : tensor<2x2x2xf32>
}
