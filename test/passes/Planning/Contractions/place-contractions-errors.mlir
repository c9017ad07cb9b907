// RUN: not mpc-opt %s --plan-place-contractions=contractions=both 2>&1 | FileCheck %s --check-prefix=PROVIDER
// RUN: not mpc-opt %s --mpc-attach-target=name=sm_80 --plan-place-contractions 2>&1 | FileCheck %s --check-prefix=LAYOUT

// PROVIDER: expected --contractions table, library, generated or bare, found both
// LAYOUT: has a filter layout that target 'sm_80' does not take, run mpc-convert-layout for it
func.func @f(%x: tensor<1x4x4x8xf32>, %w: tensor<8x8x1x1xf32>) -> tensor<1x4x4x8xf32> {
  %y = mpc.region contraction (%x, %w) {kernel = "conv"} : (tensor<1x4x4x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x4x4x8xf32> {
  ^bb0(%0: tensor<1x4x4x8xf32>, %1: tensor<8x8x1x1xf32>):
    %2 = mpc.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
        : (tensor<1x4x4x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x4x4x8xf32>
    mpc.yield %2 : tensor<1x4x4x8xf32>
  }
  return %y : tensor<1x4x4x8xf32>
}
