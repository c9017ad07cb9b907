// RUN: mpc-opt %s -split-input-file -verify-diagnostics

// ceil_mode adds a window for the rest, unless it would start in the padding.
func.func @windows_that_fit(%x: tensor<1x2x6x6xf32>, %n: tensor<1x6x6x2xf32>, %w: tensor<4x1x3x3xf32>) {
  %0 = mpc.conv %x, %w {dilations = array<i64: 2, 2>, group = 2 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 2>} : (tensor<1x2x6x6xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x4x2xf32>
  %1 = mpc.average_pool %x {kernel = array<i64: 3, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 1>, strides = array<i64: 2, 2>, ceil_mode = true} : (tensor<1x2x6x6xf32>) -> tensor<1x2x3x3xf32>
  %2 = mpc.average_pool %n {kernel = array<i64: 3, 3>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>, layout = #mpc.layout<NHWC>} : (tensor<1x6x6x2xf32>) -> tensor<1x2x2x2xf32>
  %3 = mpc.global_average_pool %n {layout = #mpc.layout<NHWC>} : (tensor<1x6x6x2xf32>) -> tensor<1x1x1x2xf32>
  return
}

// -----

func.func @stride_of_zero(%x: tensor<1x1x8x8xf32>, %w: tensor<1x1x3x3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected kernel sizes, strides and dilations of at least 1 and pads of at least 0}}
  %0 = "mpc.conv"(%x, %w) {strides = array<i64: 0, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x1x8x8xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x6x6xf32>
  return
}

// -----

func.func @groups_that_do_not_divide(%x: tensor<1x3x8x8xf32>, %w: tensor<4x1x3x3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{a weight of shape [4, 1, 3, 3] in 2 groups does not fit 3 input channels}}
  %0 = "mpc.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x3x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32>
  return
}

// -----

func.func @window_larger_than_input(%x: tensor<1x1x2x2xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{a window of 3 does not fit a padded axis of 2}}
  %0 = "mpc.average_pool"(%x) {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (tensor<1x1x2x2xf32>) -> tensor<1x1x1x1xf32>
  return
}

// -----

func.func @filter_of_another_layout(%x: tensor<1x3x4x4xf32>, %w: tensor<2x3x1x1xf32>) {
  // expected-error @below {{does not fit 3 input channels}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, filter_layout = #mpc.filter_layout<OHWI>}
      : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  return
}

// -----

func.func @dilated_window_does_not_fit(%x: tensor<1x1x5x5xf32>) -> tensor<1x1x1x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{a window of 7 does not fit a padded axis of 5}}
  %0 = mpc.average_pool %x {kernel = array<i64: 3, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 3, 1>}
      : (tensor<1x1x5x5xf32>) -> tensor<1x1x1x4xf32>
  return %0 : tensor<1x1x1x4xf32>
}

// -----

func.func @gradient_of_another_convolution(%dy: tensor<1x4x5x6xf32>, %w: tensor<4x1x3x3xf32>) {
  // expected-error@+1 {{expected d_output of shape [1, 4, 6, 6], found [1, 4, 5, 6]}}
  %0 = mpc.conv_input_grad %dy, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x5x6xf32>, tensor<4x1x3x3xf32>) -> tensor<1x1x8x8xf32>
  return
}

// -----

func.func @bias_of_other_channels(%x: tensor<1x1x4x4xf32>, %w: tensor<2x1x3x3xf32>, %b: tensor<3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected a bias of 2 elements, found [3]}}
  %0 = mpc.conv %x, %w, %b {dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x1x4x4xf32>, tensor<2x1x3x3xf32>, tensor<3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

func.func @pool_of_too_many_axes(%x: tensor<1x1x2x2x2x2xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected one to three spatial axes, found 4}}
  %0 = mpc.global_average_pool %x : (tensor<1x1x2x2x2x2xf32>) -> tensor<1x1x1x1x1x1xf32>
  return
}
