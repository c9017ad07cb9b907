// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-place-contractions | FileCheck %s

// Convolutions have one type. Where a wider result is wanted, they multiply
// the same numbers as tf32, which holds them all.
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
