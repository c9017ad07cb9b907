// Scores that return to the samples' order after time-major steps are paired
// with the labels. So are scores of inputs whose path is unknown.
//
// RUN: mpc-opt %s -split-input-file -mpc-add-loss="loss=softmax_cross_entropy@y:-1 label-shape=2" | FileCheck %s

// CHECK-LABEL: func @step
// CHECK: mpc.softmax_cross_entropy_loss
func.func @forward(%x: tensor<2x2x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %t = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<2x2x5xf32>) -> tensor<2x2x5xf32>
  %r = mpc.relu %t : (tensor<2x2x5xf32>) -> tensor<2x2x5xf32>
  %b = mpc.transpose %r {perm = array<i64: 1, 0, 2>} : (tensor<2x2x5xf32>) -> tensor<2x2x5xf32>
  %y = mpc.reshape %b : (tensor<2x2x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// CHECK-LABEL: func @step
// CHECK: mpc.softmax_cross_entropy_loss
func.func @forward(%x: tensor<3x2x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<3x2x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.softmax %x {axis = 2 : i64} : (tensor<3x2x5xf32>) -> tensor<3x2x5xf32>
  %z = mpc.add %x, %y : (tensor<3x2x5xf32>, tensor<3x2x5xf32>) -> tensor<3x2x5xf32>
  return %z : tensor<3x2x5xf32>
}

// -----

// Samples of token ids are samples of their embeddings, also if there are as
// many tokens as samples.
// CHECK-LABEL: func @step
// CHECK: mpc.softmax_cross_entropy_loss
func.func @forward(%ids: tensor<2x2xi64> {mpc.input = "ids", mpc.role = #mpc.role<data>})
    -> (tensor<2x2x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %table = mpc.constant dense<1.0> : tensor<7x5xf32>
  %y = mpc.gather %table, %ids {axis = 0 : i64} : (tensor<7x5xf32>, tensor<2x2xi64>) -> tensor<2x2x5xf32>
  return %y : tensor<2x2x5xf32>
}
