// RUN: mpc-opt %s -split-input-file -amp-find-loss-gradient="mode=16-mixed" -verify-diagnostics

mpc.variable @w : tensor<4x2xf32> role parameter
mpc.variable @v : tensor<4x2xf32> role parameter

// There are two losses: no value has both gradients downstream.
func.func @two_losses(%x: tensor<8x4xf32>, %xt: tensor<4x8xf32>, %t: tensor<8x2xf32>, %w: tensor<4x2xf32> {mpc.state = @w},
                %v: tensor<4x2xf32> {mpc.state = @v}, %lr: tensor<f32>)
    -> (tensor<4x2xf32> {mpc.updates = @w}, tensor<4x2xf32> {mpc.updates = @v}) {
  %y = mpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %z = mpc.matmul %x, %v : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  // expected-error@+1 {{cannot apply a loss scale to the model's own backward pass: found no value to scale, because all gradients must be proportional to one value that depends on all parameters; use --precision bf16-mixed, or --loss-scale none}}
  %d = mpc.sub %y, %t {mpc.phase = #mpc.phase<backward>} : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  %e = mpc.sub %z, %t {mpc.phase = #mpc.phase<backward>} : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  %gw = mpc.matmul %xt, %d {mpc.phase = #mpc.phase<backward>} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %gv = mpc.matmul %xt, %e {mpc.phase = #mpc.phase<backward>} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %w1 = mpc.sgd %w, %gw, %lr : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %v1 = mpc.sgd %v, %gv, %lr : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %w1, %v1 : tensor<4x2xf32>, tensor<4x2xf32>
}

// -----

mpc.variable @w : tensor<2x2xf32> role parameter
mpc.variable @v : tensor<2x2xf32> role parameter

// Only one of the two gradients is a multiple of the value that both depend on.
func.func @square(%x: tensor<2x2xf32>, %w: tensor<2x2xf32> {mpc.state = @w}, %v: tensor<2x2xf32> {mpc.state = @v}, %lr: tensor<f32>)
    -> (tensor<2x2xf32> {mpc.updates = @w}, tensor<2x2xf32> {mpc.updates = @v}) {
  %h = mpc.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = mpc.matmul %h, %v : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %d = mpc.neg %y {mpc.phase = #mpc.phase<backward>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-error@unknown {{that depends on all parameters, but 'square' breaks this; use --precision bf16-mixed}}
  %s = mpc.mul %d, %d {mpc.phase = #mpc.phase<backward>} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32> loc("square")
  %gw = mpc.matmul %x, %s {mpc.phase = #mpc.phase<backward>} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %gv = mpc.matmul %x, %d {mpc.phase = #mpc.phase<backward>} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %w1 = mpc.sgd %w, %gw, %lr : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  %v1 = mpc.sgd %v, %gv, %lr : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  return %w1, %v1 : tensor<2x2xf32>, tensor<2x2xf32>
}
