// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-place-contractions | FileCheck %s

// A convolution has one type. For a wider result, its operands are multiplied
// as tf32, which represents all of them.
//
// CHECK-LABEL: func.func @convolution
// CHECK-DAG: %[[X:.*]] = mpc.region pointwise(%arg0) {kernel = "conv_lhs"} : (tensor<1x4x4x8xbf16>) -> tensor<1x4x4x8xf32>
// CHECK-DAG: %[[W:.*]] = mpc.region pointwise(%arg1) {kernel = "conv_rhs"} : (tensor<8x1x1x8xbf16>) -> tensor<8x1x1x8xf32>
// CHECK: %[[Y:.*]] = mpc.conv %[[X]], %[[W]] {{.*}}plan.compute = #plan.compute<tf32>{{.*}} -> tensor<1x4x4x8xf32>
// CHECK: mpc.region pointwise(%[[Y]], %arg2) {kernel = "conv"}
// CHECK: mpc.conv_weight_grad %[[X]], %{{.*}}plan.compute = #plan.compute<tf32>{{.*}} -> tensor<8x1x1x8xf32>
func.func @convolution(%x: tensor<1x4x4x8xbf16>, %w: tensor<8x1x1x8xbf16>, %b: tensor<8xf32>) -> (tensor<1x4x4x8xbf16>, tensor<8x1x1x8xf32>) {
  %y = mpc.region contraction (%x, %w, %b) {kernel = "conv"} : (tensor<1x4x4x8xbf16>, tensor<8x1x1x8xbf16>, tensor<8xf32>) -> tensor<1x4x4x8xbf16> {
  ^bb0(%0: tensor<1x4x4x8xbf16>, %1: tensor<8x1x1x8xbf16>, %2: tensor<8xf32>):
    %3 = mpc.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>, filter_layout = #mpc.filter_layout<OHWI>}
        : (tensor<1x4x4x8xbf16>, tensor<8x1x1x8xbf16>) -> tensor<1x4x4x8xf32>
    %4 = mpc.add %3, %2 : (tensor<1x4x4x8xf32>, tensor<8xf32>) -> tensor<1x4x4x8xbf16>
    mpc.yield %4 : tensor<1x4x4x8xbf16>
  }
  %dw = mpc.region contraction (%x, %y) {kernel = "dw"} : (tensor<1x4x4x8xbf16>, tensor<1x4x4x8xbf16>) -> tensor<8x1x1x8xf32> {
  ^bb0(%0: tensor<1x4x4x8xbf16>, %1: tensor<1x4x4x8xbf16>):
    %2 = mpc.conv_weight_grad %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>, filter_layout = #mpc.filter_layout<OHWI>}
        : (tensor<1x4x4x8xbf16>, tensor<1x4x4x8xbf16>) -> tensor<8x1x1x8xf32>
    mpc.yield %2 : tensor<8x1x1x8xf32>
  }
  return %y, %dw : tensor<1x4x4x8xbf16>, tensor<8x1x1x8xf32>
}

// A bias of zeros is dropped: the library then reads bf16 and rounds its own
// sums, in a convolution and in the product of a convolution of one tap.
//
// CHECK-LABEL: func.func @zero_bias
// CHECK-NOT: mpc.region pointwise
// CHECK: %[[Y:.*]] = mpc.conv %arg0, %arg1 {{.*}} : (tensor<1x4x4x8xbf16>, tensor<8x3x3x8xbf16>) -> tensor<1x4x4x8xbf16>
// CHECK-NOT: mpc.region pointwise
// CHECK: %[[Z:.*]] = mpc.matmul %[[Y]], %arg2 {{.*}} -> tensor<1x4x4x8xbf16>
// CHECK-NOT: mpc.region pointwise
// CHECK: return %[[Z]]
func.func @zero_bias(%x: tensor<1x4x4x8xbf16>, %w: tensor<8x3x3x8xbf16>, %v: tensor<8x8xbf16>) -> tensor<1x4x4x8xbf16> {
  %y = mpc.region contraction (%x, %w) {kernel = "conv"} : (tensor<1x4x4x8xbf16>, tensor<8x3x3x8xbf16>) -> tensor<1x4x4x8xbf16> {
  ^bb0(%0: tensor<1x4x4x8xbf16>, %1: tensor<8x3x3x8xbf16>):
    %2 = mpc.constant dense<0.0> : tensor<8xf32>
    %3 = mpc.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>, filter_layout = #mpc.filter_layout<OHWI>}
        : (tensor<1x4x4x8xbf16>, tensor<8x3x3x8xbf16>) -> tensor<1x4x4x8xf32>
    %4 = mpc.add %3, %2 : (tensor<1x4x4x8xf32>, tensor<8xf32>) -> tensor<1x4x4x8xbf16>
    mpc.yield %4 : tensor<1x4x4x8xbf16>
  }
  %z = mpc.region contraction (%y, %v) {kernel = "tap"} : (tensor<1x4x4x8xbf16>, tensor<8x8xbf16>) -> tensor<1x4x4x8xbf16> {
  ^bb0(%0: tensor<1x4x4x8xbf16>, %1: tensor<8x8xbf16>):
    %2 = mpc.constant dense<0.0> : tensor<8xf32>
    %3 = mpc.matmul %0, %1 {transB = true} : (tensor<1x4x4x8xbf16>, tensor<8x8xbf16>) -> tensor<1x4x4x8xf32>
    %4 = mpc.add %2, %3 : (tensor<8xf32>, tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xbf16>
    mpc.yield %4 : tensor<1x4x4x8xbf16>
  }
  return %z : tensor<1x4x4x8xbf16>
}

// A single nonzero bias is added, to a convolution in f32.
//
// CHECK-LABEL: func.func @other_bias
// CHECK: mpc.conv {{.*}} -> tensor<1x4x4x2xf32>
// CHECK: mpc.region pointwise
// CHECK: mpc.add
func.func @other_bias(%x: tensor<1x4x4x8xbf16>, %w: tensor<2x1x1x8xbf16>) -> tensor<1x4x4x2xbf16> {
  %y = mpc.region contraction (%x, %w) {kernel = "conv"} : (tensor<1x4x4x8xbf16>, tensor<2x1x1x8xbf16>) -> tensor<1x4x4x2xbf16> {
  ^bb0(%0: tensor<1x4x4x8xbf16>, %1: tensor<2x1x1x8xbf16>):
    %2 = mpc.constant dense<[0.0, 1.0]> : tensor<2xf32>
    %3 = mpc.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>, filter_layout = #mpc.filter_layout<OHWI>}
        : (tensor<1x4x4x8xbf16>, tensor<2x1x1x8xbf16>) -> tensor<1x4x4x2xf32>
    %4 = mpc.add %3, %2 : (tensor<1x4x4x2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xbf16>
    mpc.yield %4 : tensor<1x4x4x2xbf16>
  }
  return %y : tensor<1x4x4x2xbf16>
}
