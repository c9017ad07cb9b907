// The whole stage leaves only the LLVM dialect, and its result is a valid input.
// RUN: mpc-opt %s --mpc-codegen=target=x86-64-v3 | FileCheck %s
// RUN: mpc-opt %s --mpc-codegen=target=x86-64-v3 | mpc-opt | FileCheck %s

// CHECK-NOT: builtin.unrealized_conversion_cast
// CHECK-NOT: arith.
// CHECK: llvm.func @kernel(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr)
func.func private @kernel(%x: tensor<64x10xbf16>, %l: tensor<64xi64>)
    -> (tensor<64x10xf32>, tensor<64x1xf32>) attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.exp %x : (tensor<64x10xbf16>) -> tensor<64x10xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 1>, keepdims = true}
      : (tensor<64x10xf32>) -> tensor<64x1xf32>
  %2 = mpc.one_hot %l {axis = 1 : i64, depth = 10 : i64}
      : (tensor<64xi64>) -> tensor<64x10xf32>
  %3 = mpc.div %2, %1 : (tensor<64x10xf32>, tensor<64x1xf32>) -> tensor<64x10xf32>
  return %3, %1 : tensor<64x10xf32>, tensor<64x1xf32>
}
