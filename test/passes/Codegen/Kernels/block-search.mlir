// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// Each thread tests an id. Warps vote, threads count the votes before their own, and
// list the ids of the block in shared memory, in order.
// CHECK-LABEL: func.func @add_rows(
// CHECK: %[[VOTES:.*]] = nvvm.vote.sync ballot %{{.*}}, %[[TEST:.*]] -> i32
// CHECK-NEXT: %[[COUNT:.*]] = llvm.intr.ctpop(%[[VOTES]])
// CHECK: memref.store %[[COUNT]], %{{.*}} : memref<8xi32, 3>
// CHECK: nvvm.barrier0
// CHECK-COUNT-8: memref.load %{{.*}} : memref<8xi32, 3>
// CHECK: scf.if %[[TEST]]
// CHECK: memref.store %{{.*}} : memref<256xi32, 3>
// CHECK: nvvm.barrier0
func.func private @add_rows(%t: tensor<100x8xf32>, %i: tensor<5xi64>, %u: tensor<5x8xf32>)
    -> tensor<100x8xf32>
    attributes {mpc.kernel = #mpc.kernel<scatter>} {
  %0 = mpc.scatter %t, %i, %u {axis = 0 : i64, reduction = #mpc.scatter<add>} : (tensor<100x8xf32>, tensor<5xi64>, tensor<5x8xf32>) -> tensor<100x8xf32>
  return %0 : tensor<100x8xf32>
}
