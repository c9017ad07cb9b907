// RUN: mpc-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(mpc-verify-fusion))" --verify-diagnostics

func.func @outside(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'mpc.relu' op expected to be part of an mpc.region}}
  %0 = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @unnamed(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'mpc.region' op expected the name of a kernel}}
  %0 = mpc.region pointwise (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%1: tensor<4xf32>):
    %2 = mpc.relu %1 : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %2 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @foreign(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = mpc.region pointwise (%x) {kernel = "k"} : (tensor<4x8xf32>) -> tensor<8x4xf32> {
  ^bb0(%1: tensor<4x8xf32>):
    // expected-error @below {{'mpc.transpose' op does not belong in a region of kind "pointwise"}}
    %2 = mpc.transpose %1 {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
    mpc.yield %2 : tensor<8x4xf32>
  }
  return %0 : tensor<8x4xf32>
}

// -----

func.func @axes(%x: tensor<4x8xf32>) -> tensor<1x8xf32> {
  %0 = mpc.region row_reduce (%x) {kernel = "k"} : (tensor<4x8xf32>) -> tensor<1x8xf32> {
  ^bb0(%1: tensor<4x8xf32>):
    // expected-error @below {{expected a reduction over the last axes in a region of kind "row_reduce"}}
    %2 = mpc.reduce_sum %1 {axes = array<i64: 0>, keepdims = true} : (tensor<4x8xf32>) -> tensor<1x8xf32>
    mpc.yield %2 : tensor<1x8xf32>
  }
  return %0 : tensor<1x8xf32>
}

// -----

func.func @dropped(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = mpc.region row_reduce (%x) {kernel = "k"} : (tensor<4x8xf32>) -> tensor<4xf32> {
  ^bb0(%1: tensor<4x8xf32>):
    // expected-error @below {{expected a reduction that keeps its axes, found 'tensor<4x8xf32>' to 'tensor<4xf32>', run mpc-normalize-reductions first}}
    %2 = mpc.reduce_sum %1 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
    mpc.yield %2 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @before_the_contraction(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.region contraction (%x, %w) {kernel = "k"} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%1: tensor<4x8xf32>, %2: tensor<8x4xf32>):
    %3 = mpc.neg %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // expected-error @below {{'mpc.matmul' op expected to read only inputs of its region, found the result of mpc.neg}}
    %4 = mpc.matmul %3, %2 : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    mpc.yield %4 : tensor<4x4xf32>
  }
  return %0 : tensor<4x4xf32>
}

// -----

func.func @layout(%x: tensor<2x4x4x4xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32> {
  %0 = mpc.region contraction (%x, %w) {kernel = "k"} : (tensor<2x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32> {
  ^bb0(%1: tensor<2x4x4x4xf32>, %2: tensor<4x4x1x1xf32>):
    // expected-error @below {{expected layout NHWC, found NCHW, run mpc-convert-layout first}}
    %3 = mpc.conv %1, %2 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
        : (tensor<2x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32>
    mpc.yield %3 : tensor<2x4x4x4xf32>
  }
  return %0 : tensor<2x4x4x4xf32>
}

// -----

func.func @two_heroes(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{expected one hero op, found 2}}
  %0 = mpc.region contraction (%x) {kernel = "k"} : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%1: tensor<4x4xf32>):
    %2 = mpc.matmul %1, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = mpc.matmul %1, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    mpc.yield %3 : tensor<4x4xf32>
  }
  return %0 : tensor<4x4xf32>
}
