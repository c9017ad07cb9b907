// RUN: mpc-opt %s -split-input-file -verify-diagnostics

func.func @permutation_with_a_repeated_axis(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{perm [0, 0] is not a permutation of the 2 axes}}
  %0 = "mpc.transpose"(%x) {perm = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @slice_strided_past_the_end(%x: tensor<8xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{3 elements from 2 on, 3 apart, are outside an axis of size 8}}
  %0 = "mpc.slice"(%x) {offsets = array<i64: 2>, sizes = array<i64: 3>, strides = array<i64: 3>} : (tensor<8xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @slice_strided_before_the_start(%x: tensor<8xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{4 elements from 2 on, -1 apart, are outside an axis of size 8}}
  %0 = "mpc.slice"(%x) {offsets = array<i64: 2>, sizes = array<i64: 4>, strides = array<i64: -1>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @slice_of_a_stride_that_overflows(%x: tensor<8xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{are outside an axis of size 8}}
  %0 = "mpc.slice"(%x) {offsets = array<i64: 0>, sizes = array<i64: 3>, strides = array<i64: 4611686018427387904>} : (tensor<8xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @slice_of_stride_0(%x: tensor<8xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected strides other than 0}}
  %0 = "mpc.slice"(%x) {offsets = array<i64: 0>, sizes = array<i64: 3>, strides = array<i64: 0>} : (tensor<8xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @pad_of_too_few_strides(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected 2 strides, one per axis}}
  %0 = "mpc.pad"(%x) {offsets = array<i64: 0, 0>, shape = array<i64: 4, 5>, strides = array<i64: 2>} : (tensor<2x3xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @slice_past_the_end(%x: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{elements [2, 5) are outside an axis of size 4}}
  %0 = "mpc.slice"(%x) {offsets = array<i64: 2>, sizes = array<i64: 3>} : (tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @pad_past_the_end(%x: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{elements [2, 6) are outside an axis of size 5}}
  %0 = "mpc.pad"(%x) {offsets = array<i64: 2>, shape = array<i64: 5>} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @pad_of_another_rank(%x: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected 1 offsets and extents, one per axis}}
  %0 = "mpc.pad"(%x) {offsets = array<i64: 0, 0>, shape = array<i64: 5, 5>} : (tensor<4xf32>) -> tensor<5x5xf32>
  return
}

// -----

func.func @reshape_that_loses_elements(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{expected 32 elements, found 31}}
  %0 = mpc.reshape %x : (tensor<4x8xf32>) -> tensor<31xf32>
  return
}
