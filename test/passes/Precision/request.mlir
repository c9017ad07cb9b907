// The request of a module says what precision is decided. Options replace the
// fields that they name.
//
// RUN: mpc-opt %s -amp-find-loss-gradient -amp-assign-precision -amp-insert-casts -amp-optimize-casts -amp-insert-loss-scaling -mlir-print-local-scope | FileCheck %s --check-prefix=ASKED
// RUN: mpc-opt %s -amp-assign-precision="mode=16-mixed keep-fp32=^fc1$" -amp-insert-loss-scaling="loss-scale=none" -mlir-print-local-scope | FileCheck %s --check-prefix=CHANGED

// ASKED: module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed", loss_scale = 1.280000e+02, keep_fp32 = ["^fc2$"]>
// ASKED: mpc.gemm {{.*}}compute = bf16,
// ASKED: mpc.gemm {{.*}}compute = f32, {{.*}}rule = "--keep-fp32=^fc2$"

// CHANGED: amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed", loss_scale = none, keep_fp32 = ["^fc1$"]>
// CHANGED: mpc.gemm {{.*}}compute = f32, {{.*}}rule = "--keep-fp32=^fc1$"
// CHANGED: mpc.gemm {{.*}}compute = f16,
module attributes {amp.request = #amp.request<"bf16-mixed", loss_scale = 128.0, keep_fp32 = ["^fc2$"]>} {
  func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = mpc.gemm %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc1")
    %1 = mpc.gemm %0, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc2")
    return %1 : tensor<4x4xf32>
  }
}
