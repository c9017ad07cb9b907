// RUN: mpc-opt %s --mpc-attach-target=name=sm_90 -amp-assign-precision="mode=bf16-mixed" -mlir-print-local-scope | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 -amp-assign-precision="mode=bf16-mixed" -mlir-print-local-scope | FileCheck %s --check-prefix=CPU
// RUN: mpc-opt %s --mpc-attach-target=name=sm_90 -amp-assign-precision="mode=bf16-mixed" -amp-insert-casts -mlir-print-local-scope | FileCheck %s --check-prefix=CASTS

// A GPU's library has no float32 weight gradient of low operands: the gradient
// is rounded once, and a remark says so. Matrix products and CPUs have one.
// CHECK: mpc.conv_weight_grad {{.*}}results = [bf16]{{.*}}rounded once it is summed, as in PyTorch
// CHECK: mpc.conv_weight_grad
// CHECK-NOT: rounded once
// CPU: mpc.conv_weight_grad
// CPU-NOT: rounded once
//
// The gradient's users compute in float32.
// CASTS: %[[DW:.*]] = mpc.conv_weight_grad {{.*}} -> tensor<4x4x3x3xbf16>
// CASTS: %[[WIDE:.*]] = amp.cast %[[DW]] {{.*}} -> tensor<4x4x3x3xf32>
// CASTS: return %[[WIDE]]
func.func @step(%x: tensor<2x4x8x8xf32>, %dy: tensor<2x4x8x8xf32>) -> (tensor<4x4x3x3xf32>, tensor<4x4x1x1xf32>) {
  %dw = mpc.conv_weight_grad %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<4x4x3x3xf32>
  %dp = mpc.conv_weight_grad %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<4x4x1x1xf32>
  return %dw, %dp : tensor<4x4x3x3xf32>, tensor<4x4x1x1xf32>
}
