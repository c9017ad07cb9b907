// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-decompose))" | FileCheck %s

// Composites become elementwise ops and reductions. decompose-softmax, -losses
// and -norm test the families.

// The new ops keep the node's names and phase.
// CHECK-LABEL: func.func @softmax
// CHECK: mpc.reduce_max {{.*}}mpc.phase = #mpc.phase<forward>
// CHECK: mpc.exp {{.*}}mpc.phase = #mpc.phase<forward>
// CHECK-NOT: mpc.softmax
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = mpc.softmax %x {axis = 1 : i64, mpc.phase = #mpc.phase<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Ops with their own kernels stay.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT: mpc.matmul
// CHECK-NEXT: mpc.relu
// CHECK-NEXT: return
func.func @kept(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.relu %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
