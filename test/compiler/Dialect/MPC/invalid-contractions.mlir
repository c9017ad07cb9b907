// RUN: mpc-opt %s -split-input-file -verify-diagnostics

func.func @inner_dimensions_differ(%a: tensor<4x8xf32>, %b: tensor<7x5xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{inner dimensions 8 and 7 differ}}
  %0 = "mpc.matmul"(%a, %b) : (tensor<4x8xf32>, tensor<7x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @gemm_addend_that_does_not_broadcast(%a: tensor<4x8xf32>, %b: tensor<8x5xf32>, %c: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{C of shape [4] does not broadcast to [4, 5]}}
  %0 = "mpc.gemm"(%a, %b, %c) : (tensor<4x8xf32>, tensor<8x5xf32>, tensor<4xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @filter_layout(%x: tensor<1x3x4x4xf32>, %w: tensor<2x3x1x1xf32>) {
  // expected-error @below {{unknown filter layout "HWIO"}}
  // expected-error @below {{failed to parse MPC_FilterLayoutAttr}}
  %0 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, filter_layout = #mpc.filter_layout<HWIO>}
      : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  return
}
