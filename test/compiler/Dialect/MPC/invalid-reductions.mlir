// RUN: mpc-opt %s -split-input-file -verify-diagnostics

func.func @cumsum_of_no_axis(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{axis 2 is not in [0, 2)}}
  %0 = "mpc.cumsum"(%x) {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @parts_of_unequal_length(%x: tensor<10x4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected 'parts' to divide an axis of size 10, found 4}}
  %0 = "mpc.reduce_sum"(%x) {axes = array<i64: 0>, keepdims = true, parts = 4 : i64} : (tensor<10x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @parts_of_an_axis_that_is_gone(%x: tensor<10x4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected reduced axes, and keepdims, because 'parts' is 2, found axes [0] without keepdims}}
  %0 = "mpc.reduce_max"(%x) {axes = array<i64: 0>, parts = 2 : i64} : (tensor<10x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @unsorted_axes(%x: tensor<4x8xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected sorted, distinct axes}}
  %0 = "mpc.reduce_sum"(%x) {axes = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<f32>
  return
}

// -----

func.func @reduces_nothing_over_ranks() {
  // expected-error@+1 {{expected an operand, found none}}
  "mpc.all_reduce"() {kind = #mpc.reduce<sum>} : () -> ()
  return
}

// -----

func.func @widens_over_ranks(%x: tensor<4xf16>) {
  // expected-error@+1 {{expected results of the operands' types, found 'tensor<4xf32>' for 'tensor<4xf16>'}}
  %0 = mpc.all_reduce sum %x : (tensor<4xf16>) -> tensor<4xf32>
  return
}

// -----

func.func @mixes_types_over_ranks(%x: tensor<4xf16>, %y: tensor<4xf32>) {
  // expected-error@+1 {{expected operands of one element type, found 'f16' and 'f32'}}
  %0, %1 = mpc.all_reduce sum %x, %y : (tensor<4xf16>, tensor<4xf32>) -> (tensor<4xf16>, tensor<4xf32>)
  return
}

// -----

func.func @mean_of_counts(%x: tensor<4xi64>) {
  // expected-error@+1 {{expected floats for a mean, found 'i64'}}
  %0 = mpc.all_reduce mean %x : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @rows_of_two_tables_over_ranks(%x: tensor<4x2xf32>) {
  // expected-error@+1 {{expected one tensor with an axis and no owner, because rows travel, found 'tensor<4x2xf32>', 'tensor<4x2xf32>'}}
  %0, %1 = mpc.all_reduce mean %x, %x rows : (tensor<4x2xf32>, tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>)
  return
}

// -----

func.func @rows_of_a_scalar_over_ranks(%x: tensor<f32>) {
  // expected-error@+1 {{expected one tensor with an axis and no owner, because rows travel, found 'tensor<f32>'}}
  %0 = mpc.all_reduce mean %x rows : (tensor<f32>) -> tensor<f32>
  return
}

// -----

mpc.variable @w : tensor<4x2xf32> role parameter
func.func @rows_to_an_owner(%x: tensor<4x2xf32>) {
  // expected-error@+1 {{because rows travel, found 'tensor<4x2xf32>' with owners}}
  %0 = mpc.all_reduce mean %x owners [@w] rows : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return
}
