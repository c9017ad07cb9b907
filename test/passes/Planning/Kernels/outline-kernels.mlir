// RUN: mpc-opt %s --plan-outline-kernels | FileCheck %s

// The library's contraction stays, and its users become an epilogue.
// CHECK-LABEL: func.func @linear
// CHECK: %[[P:.*]] = mpc.matmul %{{.*}}, %{{.*}} {transB = true} : (tensor<32x64xbf16>, tensor<10x64xbf16>) -> tensor<32x10xf32>
// CHECK: call @fc1(%[[P]], %{{.*}}) : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
func.func @linear(%x: tensor<32x64xbf16>, %w: tensor<10x64xbf16>, %b: tensor<10xf32>) -> tensor<32x10xf32> {
  %y = mpc.region contraction (%x, %w, %b) {kernel = "fc1", provider = #mpc.provider<library>} : (tensor<32x64xbf16>, tensor<10x64xbf16>, tensor<10xf32>) -> tensor<32x10xf32> {
  ^bb0(%0: tensor<32x64xbf16>, %1: tensor<10x64xbf16>, %2: tensor<10xf32>):
    %3 = mpc.matmul %0, %1 {transB = true} : (tensor<32x64xbf16>, tensor<10x64xbf16>) -> tensor<32x10xf32>
    %4 = mpc.add %3, %2 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
    mpc.yield %4 : tensor<32x10xf32>
  }
  return %y : tensor<32x10xf32>
}

// The library also sums an operand, before the epilogue or without one.
// CHECK-LABEL: func.func @operand_sum
// CHECK: %[[P:.*]], %[[S:.*]] = plan.product bgrad_b %arg0, %arg1 {alpha = 1.000000e+00 : f64, transA = true, transB = false} : (tensor<64x32xbf16>, tensor<64x10xbf16>) -> tensor<32x10xf32> bias_grad tensor<1x10xf32>
// CHECK: %[[Y:.*]] = call @dw(%[[P]], %arg2) : (tensor<32x10xf32>, tensor<32x10xf32>) -> tensor<32x10xf32>
// CHECK: %[[Q:.*]], %[[T:.*]] = plan.product bgrad_a %arg0, %arg1 {{.*}} -> tensor<32x10xbf16> bias_grad tensor<1x32xf32>
// CHECK: return %[[Y]], %[[S]], %[[Q]], %[[T]]
func.func @operand_sum(%x: tensor<64x32xbf16>, %dy: tensor<64x10xbf16>, %w: tensor<32x10xf32>)
    -> (tensor<32x10xf32>, tensor<1x10xf32>, tensor<32x10xbf16>, tensor<1x32xf32>) {
  %y:2 = mpc.region contraction (%x, %dy, %w) {kernel = "dw", provider = #mpc.provider<library>} : (tensor<64x32xbf16>, tensor<64x10xbf16>, tensor<32x10xf32>) -> (tensor<32x10xf32>, tensor<1x10xf32>) {
  ^bb0(%0: tensor<64x32xbf16>, %1: tensor<64x10xbf16>, %2: tensor<32x10xf32>):
    %3 = mpc.matmul %0, %1 {transA = true} : (tensor<64x32xbf16>, tensor<64x10xbf16>) -> tensor<32x10xf32>
    %4 = mpc.add %3, %2 : (tensor<32x10xf32>, tensor<32x10xf32>) -> tensor<32x10xf32>
    %5 = mpc.reduce_sum %1 {axes = array<i64: 0>, keepdims = true} : (tensor<64x10xbf16>) -> tensor<1x10xf32>
    mpc.yield %4, %5 : tensor<32x10xf32>, tensor<1x10xf32>
  }
  %z:2 = mpc.region contraction (%x, %dy) {kernel = "plain", provider = #mpc.provider<library>} : (tensor<64x32xbf16>, tensor<64x10xbf16>) -> (tensor<32x10xbf16>, tensor<1x32xf32>) {
  ^bb0(%0: tensor<64x32xbf16>, %1: tensor<64x10xbf16>):
    %2 = mpc.matmul %0, %1 {transA = true} : (tensor<64x32xbf16>, tensor<64x10xbf16>) -> tensor<32x10xbf16>
    %3 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<64x32xbf16>) -> tensor<1x32xf32>
    mpc.yield %2, %3 : tensor<32x10xbf16>, tensor<1x32xf32>
  }
  return %y#0, %y#1, %z#0, %z#1 : tensor<32x10xf32>, tensor<1x10xf32>, tensor<32x10xbf16>, tensor<1x32xf32>
}

// A narrower product is rounded before its epilogue reads it.
// CHECK-LABEL: func.func @rounded
// CHECK: mpc.matmul {{.*}} -> tensor<4x4xf32>
// CHECK: call @round_first
func.func @rounded(%x: tensor<4x4xbf16>) -> tensor<4x4xf32> {
  %y = mpc.region contraction (%x) {kernel = "round_first", provider = #mpc.provider<library>} : (tensor<4x4xbf16>) -> tensor<4x4xf32> {
  ^bb0(%0: tensor<4x4xbf16>):
    %1 = mpc.matmul %0, %0 : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %2 = mpc.relu %1 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
    mpc.yield %2 : tensor<4x4xf32>
  }
  return %y : tensor<4x4xf32>
}

// Without an epilogue there is no kernel.
// CHECK-LABEL: func.func @bare
// CHECK-NEXT: %[[Y:.*]] = mpc.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK-NEXT: return %[[Y]]
func.func @bare(%x: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  %y = mpc.region contraction (%x) {kernel = "bare_0", provider = #mpc.provider<library>} : (tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  ^bb0(%0: tensor<4x4xbf16>):
    %1 = mpc.matmul %0, %0 : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    mpc.yield %1 : tensor<4x4xbf16>
  }
  return %y : tensor<4x4xbf16>
}

// A generated contraction stays whole.
// CHECK-LABEL: func.func @double
// CHECK-NEXT: call @in_f64(%{{.*}})
func.func @double(%x: tensor<4x4xf64>) -> tensor<4x4xf64> {
  %y = mpc.region contraction (%x) {kernel = "in_f64", provider = #mpc.provider<generated>} : (tensor<4x4xf64>) -> tensor<4x4xf64> {
  ^bb0(%0: tensor<4x4xf64>):
    %1 = mpc.matmul %0, %0 : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
    %2 = mpc.relu %1 : (tensor<4x4xf64>) -> tensor<4x4xf64>
    mpc.yield %2 : tensor<4x4xf64>
  }
  return %y : tensor<4x4xf64>
}

// CHECK-LABEL: func.func private @fc1(%{{.*}}: tensor<32x10xf32>, %{{.*}}: tensor<10xf32>)
// CHECK-SAME: mpc.kernel = #mpc.kernel<epilogue>
// CHECK: func.func private @round_first(%[[T:.*]]: tensor<4x4xf32>)
// CHECK: %[[R:.*]] = amp.cast %[[T]] : (tensor<4x4xf32>) -> tensor<4x4xbf16>
// CHECK: mpc.relu %[[R]]
// CHECK-LABEL: func.func private @in_f64(%{{.*}}: tensor<4x4xf64>)
// CHECK-SAME: mpc.kernel = #mpc.kernel<contraction>
// CHECK: mpc.matmul
