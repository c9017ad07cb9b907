// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// Wide rows are summed in bands of eight rows, which are added to totals in
// scratch memory, one per column.
// CHECK-LABEL: func.func @bands(
// CHECK-SAME: %[[X:.*]]: memref<32768xf32>, %[[Y:.*]]: memref<1024xf32>, %[[BEGIN:.*]]: index, %[[END:.*]]: index, %[[SCRATCH:.*]]: memref<1024xi8>)
// CHECK: %[[TOTALS:.*]] = memref.view %[[SCRATCH]][%c0{{.*}}][] : memref<1024xi8> to memref<128xf64>
// CHECK: vector.store %{{.*}}, %[[TOTALS]]
// CHECK: scf.for %[[BAND:.*]] = %c0{{.*}} to %c32{{.*}} step %c8
// CHECK: %[[STOP:.*]] = arith.minui
// CHECK: scf.for %{{.*}} step %c32
// CHECK: %[[SUMS:.*]]:4 = scf.for %{{.*}} = %[[BAND]] to %[[STOP]] {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK-COUNT-4: vector.load %[[X]]
// CHECK: vector.load %[[TOTALS]]{{.*}} : memref<128xf64>, vector<8xf64>
// CHECK: arith.extf %[[SUMS]]#0 : vector<8xf32> to vector<8xf64>
// CHECK: arith.addf
// CHECK: vector.store %{{.*}}, %[[TOTALS]]
// CHECK: arith.truncf %{{.*}} : vector<8xf64> to vector<8xf32>
// CHECK: vector.store %{{.*}}, %[[Y]]
func.func private @bands(%x: tensor<32x1024xf32>) -> tensor<1x1024xf32>
    attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 0>, keepdims = true}
      : (tensor<32x1024xf32>) -> tensor<1x1024xf32>
  return %0 : tensor<1x1024xf32>
}
