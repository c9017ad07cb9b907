// RUN: mpc-opt %s --split-input-file --plan-build-programs --verify-diagnostics

func.func @not_outlined(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'mpc.relu' op expected a kernel call, a contraction, attention of a library, a scan, a check of indices, a reduction over ranks, a reshape or a constant}}
  %0 = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @no_kernel(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected a kernel, found @helper}}
  %0 = call @helper(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @helper(tensor<4xf32>) -> tensor<4xf32>

// -----

func.func @channels_first(%x: tensor<2x4x4x4xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32> {
  // expected-error @below {{'mpc.conv' op expected layout NHWC, found NCHW}}
  %0 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32>
  return %0 : tensor<2x4x4x4xf32>
}
