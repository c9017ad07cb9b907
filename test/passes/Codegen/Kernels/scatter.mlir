// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// A slice fills its parts with the data, then applies updates of its own rows in
// their order. A negative index counts from the end; any other is left out.
// CHECK-LABEL: func.func @add_rows(
// CHECK: vector.load %arg0
// CHECK-NEXT: vector.store %{{.*}}, %arg3
// CHECK: scf.for %[[U:.*]] = %c0 to %c5 step %c1
// CHECK-NEXT: %[[I:.*]] = memref.load %arg1[%[[U]]]
// CHECK-NEXT: %[[BACK:.*]] = arith.cmpi slt, %[[I]], %c0_i64
// CHECK-NEXT: %[[END:.*]] = arith.addi %[[I]], %c100_i64
// CHECK-NEXT: %[[AT:.*]] = arith.select %[[BACK]], %[[END]], %[[I]]
// CHECK-NEXT: %[[IS:.*]] = arith.cmpi ult, %[[AT]], %c100_i64
// CHECK: %[[OWN:.*]] = arith.andi %{{.*}}, %{{.*}} : i1
// CHECK-NEXT: %[[BOTH:.*]] = arith.andi %[[IS]], %[[OWN]]
// CHECK-NEXT: scf.if %[[BOTH]]
// CHECK: %[[NEW:.*]] = vector.load %arg2
// CHECK: %[[OLD:.*]] = vector.load %arg3
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[OLD]], %[[NEW]]
// CHECK-NEXT: vector.store %[[SUM]], %arg3
func.func private @add_rows(%t: tensor<100x8xf32>, %i: tensor<5xi64>, %u: tensor<5x8xf32>)
    -> tensor<100x8xf32>
    attributes {mpc.kernel = #mpc.kernel<scatter>} {
  %0 = mpc.scatter %t, %i, %u {axis = 0 : i64, reduction = #mpc.scatter<add>} : (tensor<100x8xf32>, tensor<5xi64>, tensor<5x8xf32>) -> tensor<100x8xf32>
  return %0 : tensor<100x8xf32>
}
