// RUN: mpc-opt %s -split-input-file -amp-insert-loss-scaling="loss-scale=dynamic" -verify-diagnostics
// RUN: not mpc-opt %s -amp-insert-loss-scaling="loss-scale=big" 2>&1 | FileCheck %s --check-prefix=WORD
// WORD: expected a loss scale of dynamic, none or a number above 0, found 'big'
// RUN: not mpc-opt %s -amp-insert-loss-scaling="loss-scale=-2" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: expected a loss scale of dynamic, none or a number above 0, found '-2'

func.func @update_with_a_condition(%w: tensor<8xf32>, %lr: tensor<f32>, %ok: tensor<i1>) -> tensor<8xf32> {
  %seed = mpc.gradient_seed : tensor<f32>
  %g = mpc.mul %w, %seed : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  // expected-error@+1 {{'mpc.sgd' op expected an update without a condition of its own where the loss is scaled}}
  %w1 = mpc.sgd %w, %g, %lr, %ok : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
  return %w1 : tensor<8xf32>
}

// -----

// expected-error@+1 {{no gradient of this update comes from a loss that could be scaled}}
func.func @gradient_from_elsewhere(%w: tensor<8xf32>, %g: tensor<8xf32>, %lr: tensor<f32>) -> tensor<8xf32> {
  %seed = mpc.gradient_seed : tensor<f32>
  %w1 = mpc.sgd %w, %g, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %w1 : tensor<8xf32>
}

// -----

// expected-error@+1 {{expected gradients not to depend on what their finiteness guards}}
func.func @gradient_of_the_guarded_count(%n: tensor<i64>, %w: tensor<8xf32>, %lr: tensor<f32>) -> tensor<8xf32> {
  %next = mpc.increment %n : (tensor<i64>) -> tensor<i64>
  %x = mpc.cast %next : (tensor<i64>) -> tensor<f32>
  %seed = mpc.gradient_seed : tensor<f32>
  %s = mpc.mul %seed, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %g = mpc.mul %w, %s : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %w1 = mpc.sgd %w, %g, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %w1 : tensor<8xf32>
}
