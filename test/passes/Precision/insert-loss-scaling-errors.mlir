// RUN: mpc-opt %s -split-input-file -amp-insert-loss-scaling="loss-scale=dynamic" -verify-diagnostics
// RUN: not mpc-opt %s -amp-insert-loss-scaling="loss-scale=big" 2>&1 | FileCheck %s --check-prefix=WORD
// WORD: expected a loss scale of dynamic, none or a number above 0, found 'big'
// RUN: not mpc-opt %s -amp-insert-loss-scaling="loss-scale=-2" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: expected a loss scale of dynamic, none or a number above 0, found '-2'

// expected-error@+1 {{expected a gradient of a loss to scale, found none in this update}}
func.func @gradient_from_elsewhere(%w: tensor<8xf32>, %g: tensor<8xf32>, %lr: tensor<f32>) -> tensor<8xf32> {
  %seed = mpc.gradient_seed : tensor<f32>
  %w1 = mpc.sgd %w, %g, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %w1 : tensor<8xf32>
}

// -----

// A second loss reads a parameter that the first gradient has updated.
// expected-error@+1 {{expected gradients that do not depend on their own update, which is made only if they are finite}}
func.func @gradient_of_what_is_guarded(%w: tensor<8xf32>, %lr: tensor<f32>) -> tensor<8xf32> {
  %seed = mpc.gradient_seed : tensor<f32>
  %g = mpc.mul %w, %seed : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %w1 = mpc.sgd %w, %g, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %g1 = mpc.mul %w1, %seed : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %w2 = mpc.sgd %w1, %g1, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %w2 : tensor<8xf32>
}

// -----

mpc.variable @w : tensor<8xf32> role parameter
mpc.variable @a : tensor<i64> role counter
mpc.variable @b : tensor<i64> role counter
func.func @integer_state_that_is_no_count(
    %w: tensor<8xf32> {mpc.state = @w}, %a: tensor<i64> {mpc.state = @a}, %lr: tensor<f32>)
    -> (tensor<8xf32> {mpc.updates = @w}, tensor<i64> {mpc.updates = @b}) {
  %seed = mpc.gradient_seed : tensor<f32>
  %g = mpc.mul %w, %seed : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  // expected-error@+1 {{state 'b' is of type 'tensor<i64>'; with a loss scale, state other than floats can only count updates}}
  %b1 = mpc.increment %a : (tensor<i64>) -> tensor<i64>
  %w1 = mpc.sgd %w, %g, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %w1, %b1 : tensor<8xf32>, tensor<i64>
}
