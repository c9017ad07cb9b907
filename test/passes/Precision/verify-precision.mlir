// RUN: mpc-opt %s -amp-verify-precision | FileCheck %s

// A module that keeps the rules passes, unchanged: a contraction in bf16 that
// sums in f32, its operands cast once, and a denied op in fp32.

#low = #amp.decision<compute = bf16, accumulate = f32, storage = f32, class = allow, rule = "test", why = "", reason = allow_list, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
#deny = #amp.decision<compute = f32, accumulate = f32, storage = f32, class = deny, rule = "test", why = "", reason = deny_list, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>

// CHECK-LABEL: func.func @kept
// CHECK: %[[LOW:.*]] = amp.cast
// CHECK: %[[Y:.*]] = mpc.matmul %[[LOW]], %[[LOW]]
// CHECK: mpc.exp %[[Y]]
func.func @kept(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = amp.cast %x : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  %1 = mpc.matmul %0, %0 {amp.decision = #low} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
  %2 = mpc.exp %1 {amp.decision = #deny} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
