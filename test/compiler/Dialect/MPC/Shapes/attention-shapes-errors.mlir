// RUN: mpc-opt %s -split-input-file -verify-diagnostics

// Heads of keys may be shared. The values give the width of the result.
func.func @attention_that_fits(%q: tensor<2x4x8x6xf32>, %k: tensor<2x1x5x6xf32>, %v: tensor<2x1x5x3xf32>, %b: tensor<8x5xf32>) {
  %0 = mpc.attention %q, %k, %v bias %b : (tensor<2x4x8x6xf32>, tensor<2x1x5x6xf32>, tensor<2x1x5x3xf32>, tensor<8x5xf32>) -> tensor<2x4x8x3xf32>
  return
}

// -----

func.func @attention_of_other_keys(%q: tensor<2x8x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<2x8x4xf32>) {
  // expected-error @+2 {{query [2, 8, 4], key [2, 7, 4] and value [2, 8, 4] do not fit each other}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.attention %q, %k, %v : (tensor<2x8x4xf32>, tensor<2x7x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

func.func @attention_bias_of_another_shape(%q: tensor<2x8x4xf32>, %b: tensor<3x8xf32>) {
  // expected-error @+2 {{shape [3, 8] does not broadcast to the scores' [2, 8, 8]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.attention %q, %q, %q bias %b : (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<3x8xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

func.func @tables_of_two_shapes(%x: tensor<2x8x4xf32>, %c: tensor<8x2xf32>, %s: tensor<1x2xf32>) {
  // expected-error @+2 {{expected cosines and sines of one shape, found [8, 2] and [1, 2]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.rotary_embedding %x, %c, %s : (tensor<2x8x4xf32>, tensor<8x2xf32>, tensor<1x2xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

func.func @more_pairs_than_elements(%x: tensor<2x8x4xf32>, %c: tensor<8x3xf32>) {
  // expected-error @+2 {{expected tables of 1 to 2 pairs, found 3}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.rotary_embedding %x, %c, %c : (tensor<2x8x4xf32>, tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

func.func @tables_of_other_rows(%x: tensor<2x8x4xf32>, %c: tensor<7x2xf32>) {
  // expected-error @+2 {{tables [7, 2] do not broadcast to the rows of [2, 8, 4]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.rotary_embedding %x, %c, %c : (tensor<2x8x4xf32>, tensor<7x2xf32>, tensor<7x2xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

func.func @tables_of_more_axes(%x: tensor<8x4xf32>, %c: tensor<1x8x2xf32>) {
  // expected-error @+2 {{expected tables of rank 1 to 2, found [1, 8, 2]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.rotary_embedding %x, %c, %c : (tensor<8x4xf32>, tensor<1x8x2xf32>, tensor<1x8x2xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @attention_with_half_a_dropout(%q: tensor<2x8x4xf32>) {
  // expected-error @+2 {{expected a dropout with dropout_id, seed and micro_step, or none of them}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = mpc.attention %q, %q, %q {dropout = 0.5} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return
}
