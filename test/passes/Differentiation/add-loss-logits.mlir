// RUN: mpc-opt %s -split-input-file -verify-diagnostics -mpc-add-loss=loss=bce

func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<8x1xf32> {mpc.input = "w", mpc.role = #mpc.role<data>})
    -> (tensor<4x1xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  // expected-warning@+1 {{bce needs probabilities, but this node's result may be any number; for logits, use --loss bce_with_logits}}
  %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x1xf32>) -> tensor<4x1xf32>
  return %y : tensor<4x1xf32>
}

// -----

// With a bias.
func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<8x1xf32> {mpc.input = "w", mpc.role = #mpc.role<data>}, %b: tensor<4x1xf32> {mpc.input = "b", mpc.role = #mpc.role<data>})
    -> (tensor<4x1xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  // expected-warning@+1 {{bce needs probabilities}}
  %m = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x1xf32>) -> tensor<4x1xf32>
  %y = mpc.add %m, %b : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  return %y : tensor<4x1xf32>
}

// -----

func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<8x1xf32> {mpc.input = "w", mpc.role = #mpc.role<data>})
    -> (tensor<4x1xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %m = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x1xf32>) -> tensor<4x1xf32>
  %y = mpc.sigmoid %m : (tensor<4x1xf32>) -> tensor<4x1xf32>
  return %y : tensor<4x1xf32>
}
