// With --tf32, each product of a GPU is decided. Products that a flag or the
// policy keeps in fp32 stay there.
// RUN: mpc-opt %s --mpc-attach-target=name=sm_90 -amp-assign-precision -amp-insert-casts -amp-optimize-casts -amp-verify-precision -mlir-print-local-scope -mlir-print-debuginfo | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=sm_90 -amp-assign-precision="mode=bf16-mixed" -amp-insert-casts -amp-optimize-casts -amp-verify-precision -mlir-print-local-scope | FileCheck %s --check-prefix=MIXED
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision -amp-insert-casts -amp-verify-precision | FileCheck %s --check-prefix=CPU
// RUN: sed 's/, tf32 = true//' %s | mpc-opt --mpc-attach-target=name=sm_90 -amp-assign-precision -amp-insert-casts -amp-verify-precision | FileCheck %s --check-prefix=CPU

// CPU-NOT: compute = tf32
// CPU-NOT: amp.tf32
// CPU: mpc.gemm
// CPU-NOT: amp.tf32
module attributes {amp.request = #amp.request<"32-true", keep_fp32 = ["^fc1$"], tf32 = true>} {
  // CHECK-LABEL: func.func @forward
  // CHECK: mpc.gemm {{.*}}operands = [f32, f32], results = [f32], compute = f32, class = allow, rule = "--keep-fp32=^fc1$", {{.*}}reason = keep_fp32, {{.*}}flip = "drop --keep-fp32=^fc1$">} : {{.*}}loc("fc1")
  // CHECK: mpc.relu {{.*}}compute = f32, {{.*}}reason = mode
  // CHECK: mpc.gemm {{.*}}operands = [f32, f32], results = [f32], compute = tf32, class = allow, {{.*}}reason = tf32, {{.*}}flip = "--keep-fp32=^fc2$">, amp.tf32} : {{.*}}loc("fc2")
  // MIXED: mpc.gemm {{.*}}operands = [f32, f32], results = [f32], compute = f32
  // MIXED: mpc.gemm {{.*}}operands = [bf16, bf16], results = [f32], compute = bf16
  func.func @forward(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = mpc.gemm %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc1")
    %1 = mpc.relu %0 : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("relu")
    %2 = mpc.gemm %1, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc2")
    return %2 : tensor<4x4xf32>
  }
}
