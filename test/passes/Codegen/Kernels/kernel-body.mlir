// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// Axes that all buffers have side by side are one loop. The scalar of the outer
// loop is loaded outside of the inner loop.
// CHECK-LABEL: func.func @merges(
// CHECK: scf.for %[[I:.*]] = %arg3 to %arg4 step %c1
// CHECK-NEXT: memref.load %arg1[%[[I]]] : memref<4xf32>
// CHECK-NEXT: scf.for %[[J:.*]] = %c0 to %c128 step %c8
// CHECK-NEXT: %[[ROW:.*]] = arith.muli %[[I]], %c128
// CHECK-NEXT: %[[AT:.*]] = arith.addi %[[ROW]], %[[J]]
// CHECK-NEXT: vector.load %arg0[%[[AT]]]
func.func private @merges(%x: tensor<4x8x16xf32>, %y: tensor<4x1x1xf32>) -> tensor<4x8x16xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.mul %x, %y : (tensor<4x8x16xf32>, tensor<4x1x1xf32>) -> tensor<4x8x16xf32>
  return %0 : tensor<4x8x16xf32>
}

// Three axes are one loop, and one for the rest.
// CHECK-LABEL: func.func @one_loop(
// CHECK: scf.for
// CHECK-NEXT: vector.load
// CHECK: scf.for
// CHECK-NEXT: memref.load
// CHECK-NOT: scf.for
func.func private @one_loop(%x: tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.abs %x : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  return %0 : tensor<4x8x16xf32>
}
