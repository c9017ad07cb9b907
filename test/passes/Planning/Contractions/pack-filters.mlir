// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --plan-pack-filters | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-pack-filters | FileCheck %s --check-prefix=GPU
// GPU-NOT: mpc.transpose

// Forward writes the output channels: they come last.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %[[X:.*]]: tensor<2x8x8x4xf64>, %[[W:.*]]: tensor<6x4x3x3xf64>
// CHECK: %[[P:.*]] = mpc.region movement(%[[W]]) {kernel = "conv_filters"} : (tensor<6x4x3x3xf64>) -> tensor<3x3x4x6xf64>
// CHECK: mpc.transpose %{{.*}} {perm = array<i64: 2, 3, 1, 0>}
// CHECK: mpc.region contraction(%[[X]], %[[P]]) {kernel = "conv", provider = #mpc.provider<generated>}
// CHECK: ^bb0(%[[X1:.*]]: tensor<2x8x8x4xf64>, %[[P1:.*]]: tensor<3x3x4x6xf64>):
// CHECK: %[[W1:.*]] = mpc.transpose %[[P1]] {perm = array<i64: 3, 2, 0, 1>} : (tensor<3x3x4x6xf64>) -> tensor<6x4x3x3xf64>
// CHECK: mpc.conv %[[X1]], %[[W1]]
func.func @forward(%x: tensor<2x8x8x4xf64>, %w: tensor<6x4x3x3xf64>) -> tensor<2x8x8x6xf64> {
  %y = mpc.region contraction (%x, %w) {kernel = "conv", provider = #mpc.provider<generated>} : (tensor<2x8x8x4xf64>, tensor<6x4x3x3xf64>) -> tensor<2x8x8x6xf64> {
  ^bb0(%0: tensor<2x8x8x4xf64>, %1: tensor<6x4x3x3xf64>):
    %2 = mpc.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>} : (tensor<2x8x8x4xf64>, tensor<6x4x3x3xf64>) -> tensor<2x8x8x6xf64>
    mpc.yield %2 : tensor<2x8x8x6xf64>
  }
  return %y : tensor<2x8x8x6xf64>
}

// The gradient of the input writes the input channels.
// CHECK-LABEL: func.func @backward(
// CHECK: mpc.transpose %{{.*}} {perm = array<i64: 0, 2, 1>} : (tensor<6x4x3xf64>) -> tensor<6x3x4xf64>
// CHECK: mpc.transpose %{{.*}} {perm = array<i64: 0, 2, 1>} : (tensor<6x3x4xf64>) -> tensor<6x4x3xf64>
// CHECK: mpc.conv_input_grad
func.func @backward(%dy: tensor<2x8x6xf64>, %w: tensor<6x4x3xf64>) -> tensor<2x8x4xf64> {
  %y = mpc.region contraction (%dy, %w) {kernel = "conv", provider = #mpc.provider<generated>} : (tensor<2x8x6xf64>, tensor<6x4x3xf64>) -> tensor<2x8x4xf64> {
  ^bb0(%0: tensor<2x8x6xf64>, %1: tensor<6x4x3xf64>):
    %2 = mpc.conv_input_grad %0, %1 {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, layout = #mpc.layout<NHWC>} : (tensor<2x8x6xf64>, tensor<6x4x3xf64>) -> tensor<2x8x4xf64>
    mpc.yield %2 : tensor<2x8x4xf64>
  }
  return %y : tensor<2x8x4xf64>
}

// The library packs its own filters. With one channel per group there is nothing to pack.
// CHECK-LABEL: func.func @stays(
// CHECK-NOT: mpc.transpose
func.func @stays(%x: tensor<2x8x4xf32>, %w: tensor<6x4x3xf32>, %z: tensor<2x8x4xf64>, %v: tensor<4x1x3xf64>) -> (tensor<2x8x6xf32>, tensor<2x8x4xf64>) {
  %y = mpc.region contraction (%x, %w) {kernel = "library", provider = #mpc.provider<library>} : (tensor<2x8x4xf32>, tensor<6x4x3xf32>) -> tensor<2x8x6xf32> {
  ^bb0(%0: tensor<2x8x4xf32>, %1: tensor<6x4x3xf32>):
    %2 = mpc.conv %0, %1 {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, layout = #mpc.layout<NHWC>} : (tensor<2x8x4xf32>, tensor<6x4x3xf32>) -> tensor<2x8x6xf32>
    mpc.yield %2 : tensor<2x8x6xf32>
  }
  %d = mpc.region contraction (%z, %v) {kernel = "depthwise", provider = #mpc.provider<generated>} : (tensor<2x8x4xf64>, tensor<4x1x3xf64>) -> tensor<2x8x4xf64> {
  ^bb0(%0: tensor<2x8x4xf64>, %1: tensor<4x1x3xf64>):
    %2 = mpc.conv %0, %1 {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 4 : i64, layout = #mpc.layout<NHWC>} : (tensor<2x8x4xf64>, tensor<4x1x3xf64>) -> tensor<2x8x4xf64>
    mpc.yield %2 : tensor<2x8x4xf64>
  }
  return %y, %d : tensor<2x8x6xf32>, tensor<2x8x4xf64>
}
