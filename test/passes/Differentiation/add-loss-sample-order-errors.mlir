// Labels are paired with scores sample by sample: scores that have time outside
// of the samples are another order, which no shape tells where both are equal.
//
// RUN: mpc-opt %s -split-input-file -verify-diagnostics -mpc-add-loss="loss=softmax_cross_entropy@y:-1 label-shape=2"

func.func @forward(%x: tensor<4x2x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<8x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %t = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<4x2x5xf32>) -> tensor<2x4x5xf32>
  %r = mpc.reshape %t : (tensor<2x4x5xf32>) -> tensor<8x5xf32>
  // expected-error@+1 {{expected scores with the samples on axis 0, as the labels have them, found 2 positions of all 4 samples one after the other on axis 0 of [8,5]}}
  %y = mpc.relu %r : (tensor<8x5xf32>) -> tensor<8x5xf32>
  return %y : tensor<8x5xf32>
}

// -----

func.func @forward(%x: tensor<2x2x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<2x2x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  // expected-error@+1 {{found them on axis 1 of [2,2,5]}}
  %y = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<2x2x5xf32>) -> tensor<2x2x5xf32>
  return %y : tensor<2x2x5xf32>
}

// -----

// Rows of a table for each id, of ids whose steps come first.
func.func @forward(%ids: tensor<2x2xi64> {mpc.input = "ids", mpc.role = #mpc.role<data>})
    -> (tensor<2x2x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %table = mpc.constant dense<1.0> : tensor<7x5xf32>
  %steps = mpc.transpose %ids {perm = array<i64: 1, 0>} : (tensor<2x2xi64>) -> tensor<2x2xi64>
  // expected-error@+1 {{found them on axis 1 of [2,2,5]}}
  %y = mpc.gather %table, %steps {axis = 0 : i64} : (tensor<7x5xf32>, tensor<2x2xi64>) -> tensor<2x2x5xf32>
  return %y : tensor<2x2x5xf32>
}

// -----

// Columns of the samples' data, behind the axis of what is looked up.
func.func @forward(%x: tensor<2x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<2x2x2xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %places = mpc.constant dense<1> : tensor<2x2xi64>
  %t = mpc.transpose %x {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  // expected-error@+1 {{found them on axis 2 of [2,2,2]}}
  %y = mpc.gather %t, %places {axis = 0 : i64} : (tensor<4x2xf32>, tensor<2x2xi64>) -> tensor<2x2x2xf32>
  return %y : tensor<2x2x2xf32>
}
