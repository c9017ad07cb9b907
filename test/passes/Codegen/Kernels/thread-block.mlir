// Threads of a GPU block that share a row.
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// A short row takes a part of a warp: no shared memory, no barrier.
// CHECK-LABEL: func.func @short_rows(
// CHECK-NOT: nvvm.barrier
// CHECK: nvvm.shfl.sync bfly
// CHECK: nvvm.shfl.sync bfly
// CHECK: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl.sync
// CHECK: scf.if
func.func private @short_rows(%x: tensor<4096x32xf32>) -> tensor<4096x1xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true}
      : (tensor<4096x32xf32>) -> tensor<4096x1xf32>
  return %0 : tensor<4096x1xf32>
}

// A long row takes a whole block.
// CHECK: memref.global "private" @long_rows_shared : memref<8xf32, 3> = uninitialized {alignment = 16 : i64}
// CHECK-LABEL: func.func @long_rows(
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK: memref.get_global @long_rows_shared
// CHECK: nvvm.barrier0
// CHECK-COUNT-8: memref.load {{.*}} : memref<8xf32, 3>
// CHECK: nvvm.barrier0
func.func private @long_rows(%x: tensor<64x4096xf32>) -> tensor<64x1xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_max %x {axes = array<i64: 1>, keepdims = true}
      : (tensor<64x4096xf32>) -> tensor<64x1xf32>
  return %0 : tensor<64x1xf32>
}
