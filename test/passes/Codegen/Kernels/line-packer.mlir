// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// Both operands lie with their lines side by side: blocks of 16 rows of the depth are
// copied into panels of six and of sixteen lines. A last panel of fewer lines is filled
// with zeros.
// CHECK-LABEL: func.func @product(
// CHECK: %[[LEFT:.*]] = memref.view %arg5[%c0][] : memref<{{.*}}> to memref<4608xf32>
// CHECK-NEXT: %[[RIGHT:.*]] = memref.view %arg5{{.*}} to memref<4096xf32>
// CHECK: scf.for %{{.*}} = %c0 to %c64 step %c6
// CHECK: %[[WHOLE:.*]] = arith.cmpi uge, %{{.*}}, %c6
// CHECK-NEXT: scf.if %[[WHOLE]]
// CHECK: vector.load %arg0{{.*}}, vector<4xf32>
// CHECK-NEXT: vector.store %{{.*}}, %[[LEFT]]
// CHECK: vector.load %arg0{{.*}}, vector<2xf32>
// CHECK: } else {
// CHECK: memref.store %cst{{.*}}, %[[LEFT]]
// CHECK: vector.load %arg1{{.*}}, vector<8xf32>
// CHECK-NEXT: vector.store %{{.*}}, %[[RIGHT]]
// CHECK: vector.load %arg1{{.*}}, vector<8xf32>
func.func private @product(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32>
    attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %a, %b {transA = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
