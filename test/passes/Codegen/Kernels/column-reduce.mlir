// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// Four rows at a time have their own maxima. Twenty columns are two vectors of
// eight and one of four; a slice may begin inside.
// CHECK-LABEL: func.func @columns(
// CHECK: %[[M:.*]]:4 = scf.for %[[ROW:.*]] = %c0 to %c32 step %c4 {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK-COUNT-4: arith.maximumf {{.*}} : vector<8xf32>
// CHECK: %[[A:.*]] = arith.maximumf %[[M]]#0, %[[M]]#1
// CHECK-NEXT: %[[B:.*]] = arith.maximumf %[[M]]#2, %[[M]]#3
// CHECK-NEXT: arith.maximumf %[[A]], %[[B]]
// CHECK: vector.store %{{.*}}, %arg1[%{{.*}}] : memref<20xf32>, vector<8xf32>
// CHECK: vector.store %{{.*}}, %arg1[%{{.*}}] : memref<20xf32>, vector<4xf32>
func.func private @columns(%x: tensor<32x20xf32>) -> tensor<1x20xf32>
    attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.reduce_max %x {axes = array<i64: 0>, keepdims = true} : (tensor<32x20xf32>) -> tensor<1x20xf32>
  return %0 : tensor<1x20xf32>
}

// A middle axis: the mean multiplies each sum once.
// CHECK-LABEL: func.func @middle(
// CHECK: scf.for
// CHECK: scf.for
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK-DAG: arith.{{mulf|divf}} {{.*}} : vector<8xf32>
// CHECK: vector.store
func.func private @middle(%x: tensor<4x32x8xf32>) -> tensor<4x1x8xf32>
    attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x32x8xf32>) -> tensor<4x1x8xf32>
  return %0 : tensor<4x1x8xf32>
}
