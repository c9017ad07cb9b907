// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// The CPU traps on division by 0, and of the smallest number by -1. The kernel
// prevents both.
// CHECK-LABEL: func.func @divide(
// CHECK: scf.for
// CHECK: %[[A:.*]] = vector.load
// CHECK-NEXT: %[[B:.*]] = vector.load
// CHECK-NEXT: %[[ZERO:.*]] = arith.cmpi eq, %[[B]], %{{.*}} : vector<8xi32>
// CHECK-NEXT: %[[MINUS:.*]] = arith.cmpi eq, %[[B]], %{{.*}} : vector<8xi32>
// CHECK-NEXT: %[[EITHER:.*]] = arith.ori %[[ZERO]], %[[MINUS]]
// CHECK-NEXT: %[[SAFE:.*]] = arith.select %[[EITHER]], %{{.*}}, %[[B]]
// CHECK-NEXT: %[[Q:.*]] = arith.divsi %[[A]], %[[SAFE]] : vector<8xi32>
func.func private @divide(%a: tensor<64xi32>, %b: tensor<64xi32>) -> tensor<64xi32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.div %a, %b : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>
  return %0 : tensor<64xi32>
}

// Unsigned types have no -1.
// CHECK-LABEL: func.func @divide_unsigned(
// CHECK: arith.cmpi eq
// CHECK-NEXT: arith.select
// CHECK-NEXT: arith.divui
// CHECK-NEXT: arith.select
// CHECK-NEXT: vector.store
func.func private @divide_unsigned(%a: tensor<64xui32>, %b: tensor<64xui32>) -> tensor<64xui32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.div %a, %b : (tensor<64xui32>, tensor<64xui32>) -> tensor<64xui32>
  return %0 : tensor<64xui32>
}

// Narrow integers are accumulated in words, by their signedness.
// CHECK-LABEL: func.func @largest_byte(
// CHECK: %[[X:.*]] = vector.load %{{.*}} : memref<64xi8>, vector<8xi8>
// CHECK-NEXT: %[[W:.*]] = arith.extui %[[X]] : vector<8xi8> to vector<8xi32>
// CHECK-NEXT: %[[LESS:.*]] = arith.cmpi ult, %[[OLD:.*]], %[[W]]
// CHECK-NEXT: arith.select %[[LESS]], %[[W]], %[[OLD]]
// CHECK: %[[BYTE:.*]] = arith.trunci %{{.*}} : i32 to i8
// CHECK-NEXT: memref.store %[[BYTE]]
func.func private @largest_byte(%a: tensor<64xui8>) -> tensor<1xui8>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_max %a {axes = array<i64: 0>, keepdims = true} : (tensor<64xui8>) -> tensor<1xui8>
  return %0 : tensor<1xui8>
}

// Sums of integers need no wider totals: one loop suffices.
// CHECK-LABEL: func.func @sum(
// CHECK: scf.for
// CHECK: arith.addi %{{.*}}, %{{.*}} : vector<8xi64>
// CHECK-NOT: arith.addf
func.func private @sum(%a: tensor<4x4096xi64>) -> tensor<4x1xi64>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_sum %a {axes = array<i64: 1>, keepdims = true} : (tensor<4x4096xi64>) -> tensor<4x1xi64>
  return %0 : tensor<4x1xi64>
}
