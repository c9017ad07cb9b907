// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// Rows are read in bands of eight. The f32 sums of a band start at 0, and are added
// to totals in f64.
// CHECK-LABEL: func.func @rows(
// CHECK: %[[SUMS:.*]] = memref.view %arg5[%c0][] : memref<256xi8> to memref<16xf32>
// CHECK-NEXT: %[[TOTALS:.*]] = memref.view %arg5[%c128][] : memref<256xi8> to memref<16xf64>
// CHECK: vector.store %{{.*}}, %[[TOTALS]]
// CHECK: scf.for %[[BAND:.*]] = %c0 to %c32 step %c8
// CHECK: vector.store %{{.*}}, %[[SUMS]]
// CHECK: scf.for %[[ROW:.*]] = %[[BAND]] to
// CHECK: %[[TERM:.*]] = arith.mulf
// CHECK-NEXT: %[[SUM:.*]] = vector.load %[[SUMS]]
// CHECK-NEXT: %[[NEW:.*]] = arith.addf %[[SUM]], %[[TERM]] : vector<8xf32>
// CHECK-NEXT: vector.store %[[NEW]], %[[SUMS]]
// CHECK: %[[TOTAL:.*]] = vector.load %[[TOTALS]]
// CHECK-NEXT: %[[PART:.*]] = vector.load %[[SUMS]]
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[PART]] : vector<8xf32> to vector<8xf64>
// CHECK-NEXT: %[[BOTH:.*]] = arith.addf %[[TOTAL]], %[[WIDE]]
// CHECK-NEXT: vector.store %[[BOTH]], %[[TOTALS]]
// CHECK: arith.truncf %{{.*}} : vector<8xf64> to vector<8xf32>
// CHECK-NEXT: vector.store %{{.*}}, %arg2
func.func private @rows(%x: tensor<32x16xf32>) -> (tensor<32x1xf32>, tensor<1x16xf32>)
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (tensor<32x16xf32>) -> tensor<32x1xf32>
  %1 = mpc.mul %x, %0 : (tensor<32x16xf32>, tensor<32x1xf32>) -> tensor<32x16xf32>
  %2 = mpc.reduce_sum %1 {axes = array<i64: 0>, keepdims = true} : (tensor<32x16xf32>) -> tensor<1x16xf32>
  return %0, %2 : tensor<32x1xf32>, tensor<1x16xf32>
}
