// RUN: mpc-opt %s -split-input-file -verify-diagnostics -mpc-add-loss=loss=nll

func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<8x3xf32> {mpc.input = "w", mpc.role = #mpc.role<data>}, %b: tensor<3xf32> {mpc.input = "b", mpc.role = #mpc.role<data>})
    -> (tensor<4x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  // expected-warning@+1 {{nll needs log-probabilities, but this node's result may be any number; for scores, use --loss cross_entropy}}
  %m = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  %y = mpc.add %m, %b : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<8x3xf32> {mpc.input = "w", mpc.role = #mpc.role<data>})
    -> (tensor<4x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %m = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  %y = mpc.log_softmax %m {axis = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
