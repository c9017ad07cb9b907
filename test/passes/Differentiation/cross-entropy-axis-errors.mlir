// If the axis of classes is unknown, the pass asks and never guesses.
//
// RUN: mpc-opt %s -split-input-file -verify-diagnostics -mpc-add-loss="loss=softmax_cross_entropy label-shape=7"

func.func @forward(%x: tensor<4x7x7xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4x7x7xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  // expected-error@+1 {{scores of shape [4,7,7] may have their classes on axis 1 or on axis 2, and the labels' shape [4,7] fits both; say which with --loss softmax_cross_entropy@y:1 or --loss softmax_cross_entropy@y:2}}
  %y = mpc.relu %x : (tensor<4x7x7xf32>) -> tensor<4x7x7xf32>
  return %y : tensor<4x7x7xf32>
}

// -----

func.func @forward(%x: tensor<4x5x6xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4x5x6xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  // expected-error@+1 {{expected labels of shape [4,6] (classes on axis 1) or [4,5] (classes on axis 2) for scores of shape [4,5,6], found [4,7]}}
  %y = mpc.relu %x : (tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
  return %y : tensor<4x5x6xf32>
}
