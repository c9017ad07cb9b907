// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels -split-input-file -verify-diagnostics

func.func private @composite(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  // expected-error @below {{'mpc.softmax' op cannot be part of a kernel of kind 'pointwise'}}
  %0 = mpc.softmax %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func private @table(%x: tensor<2xf32>) -> tensor<2xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  // expected-error @below {{'mpc.constant' op in a kernel must be the same value everywhere; other constants are arguments}}
  %0 = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = mpc.add %x, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// expected-error @below {{'func.func' op is a kernel and must have a body and results}}
func.func private @empty() attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  return
}

// -----

// expected-error @below {{'func.func' op of kind 'movement' must hold exactly one op}}
func.func private @two(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
    attributes {mpc.kernel = #mpc.kernel<movement>} {
  %0 = mpc.transpose %x {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = mpc.transpose %0 {perm = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

func.func private @reduces(%x: tensor<4x8xf32>) -> tensor<4x1xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  // expected-error @below {{'mpc.reduce_sum' op cannot be part of a kernel of kind 'pointwise'}}
  %0 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}

// -----

// expected-error @below {{'func.func' op has no reduction}}
func.func private @keeps(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// expected-error @below {{'func.func' op has no contraction}}
func.func private @adds(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
    attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.add %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func private @every_second_row(%x: tensor<8x4xf32>, %w: tensor<4x3xf32>) -> tensor<4x3xf32>
    attributes {mpc.kernel = #mpc.kernel<contraction>} {
  // expected-error @below {{'mpc.slice' op cannot be part of a kernel of kind 'contraction'}}
  %0 = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 4>, strides = array<i64: 2, 1>} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.matmul %0, %w : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}

// -----

func.func private @segments(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  // expected-error @below {{'mpc.region' op has no reduction}}
  %0 = mpc.region row_reduce (%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%1: tensor<4x8xf32>):
    %2 = mpc.exp %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    mpc.yield %2 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

// The parts of complex numbers are not contiguous, as vectors need.
func.func private @real(%x: tensor<8x2xf32>) -> tensor<8x1xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  // expected-error @below {{'mpc.slice' op cannot be part of a kernel of kind 'pointwise'}}
  %0 = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 8, 1>} : (tensor<8x2xf32>) -> tensor<8x1xf32>
  %1 = mpc.neg %0 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  return %1 : tensor<8x1xf32>
}

// -----

func.func private @follows_column_sum(%x: tensor<4x8x16xf32>) -> tensor<4x1x16xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_max %x {axes = array<i64: 2>, keepdims = true} : (tensor<4x8x16xf32>) -> tensor<4x8x1xf32>
  %1 = mpc.sub %x, %0 : (tensor<4x8x16xf32>, tensor<4x8x1xf32>) -> tensor<4x8x16xf32>
  // expected-error @below {{'mpc.reduce_sum' op reduces columns in a row kernel: expected no op of the kernel to read the sums}}
  %2 = mpc.reduce_sum %1 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8x16xf32>) -> tensor<4x1x16xf32>
  %3 = mpc.relu %2 : (tensor<4x1x16xf32>) -> tensor<4x1x16xf32>
  return %3 : tensor<4x1x16xf32>
}

// -----

func.func private @other_columns(%x: tensor<4x8x16xf32>) -> (tensor<4x1x1xf32>, tensor<4x1x16xf32>)
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_max %x {axes = array<i64: 1, 2>, keepdims = true} : (tensor<4x8x16xf32>) -> tensor<4x1x1xf32>
  // expected-error @below {{'mpc.reduce_sum' op expected to add up the rows of its kernel, in the parts that other sums have}}
  %1 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x8x16xf32>) -> tensor<4x1x16xf32>
  return %0, %1 : tensor<4x1x1xf32>, tensor<4x1x16xf32>
}
