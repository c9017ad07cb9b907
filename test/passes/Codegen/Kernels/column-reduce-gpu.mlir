// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// Teams share the reduction and combine their sums by halving. 12 columns are 3
// vectors: one thread of each team in the second block stores nothing.
// CHECK: memref.global "private" @columns_shared : memref<1024xf32, 3>
// CHECK-LABEL: func.func @columns(
// CHECK: scf.for
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<12000xf32, 1>, vector<4xf32>
// CHECK: vector.store {{.*}} {alignment = 16 : i64} : memref<1024xf32, 3>, vector<4xf32>
// CHECK-COUNT-7: scf.if
// CHECK: scf.if
// CHECK-NEXT: vector.store {{.*}} : memref<12xf32, 1>, vector<4xf32>
func.func private @columns(%x: tensor<1000x12xf32>) -> tensor<12xf32>
    attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 0>, keepdims = false}
      : (tensor<1000x12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}
