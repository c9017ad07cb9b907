// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-decompose))" | FileCheck %s

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<32x10xf32>) -> tensor<32x10xf32> {
  // CHECK: %[[MAX:.*]] = mpc.reduce_max %[[X:.*]] {axes = array<i64: 1>, keepdims = true}
  // CHECK: %[[SUB:.*]] = mpc.sub %[[X]], %[[MAX]]
  // CHECK: %[[EXP:.*]] = mpc.exp %[[SUB]]
  // CHECK: %[[SUM:.*]] = mpc.reduce_sum %[[EXP]] {axes = array<i64: 1>, keepdims = true}
  // CHECK: %[[Y:.*]] = mpc.div %[[EXP]], %[[SUM]]
  // CHECK: return %[[Y]]
  %y = mpc.softmax %x {axis = 1 : i64} : (tensor<32x10xf32>) -> tensor<32x10xf32>
  return %y : tensor<32x10xf32>
}

// Intermediate values are f32, and only the result is rounded.
// CHECK-LABEL: func.func @narrow_log_softmax
func.func @narrow_log_softmax(%x: tensor<32x10xbf16>) -> tensor<32x10xbf16> {
  // CHECK: mpc.exp %{{.*}} : (tensor<32x10xf32>) -> tensor<32x10xf32>
  // CHECK: mpc.sub %{{.*}} : (tensor<32x10xf32>, tensor<32x1xf32>) -> tensor<32x10xbf16>
  %y = mpc.log_softmax %x {axis = 1 : i64} : (tensor<32x10xbf16>) -> tensor<32x10xbf16>
  return %y : tensor<32x10xbf16>
}

// Rows are reduced along the last axis: an inner axis is moved there.
// CHECK-LABEL: func.func @inner_axis
func.func @inner_axis(%x: tensor<2x10x4xf32>) -> tensor<2x10x4xf32> {
  // CHECK: mpc.transpose %{{.*}} {perm = array<i64: 0, 2, 1>}
  // CHECK: mpc.reduce_max %{{.*}} {axes = array<i64: 2>, keepdims = true} : (tensor<2x4x10xf32>)
  // CHECK: mpc.div
  // CHECK: mpc.transpose %{{.*}} {perm = array<i64: 0, 2, 1>} : (tensor<2x4x10xf32>) -> tensor<2x10x4xf32>
  %y = mpc.softmax %x {axis = 1 : i64} : (tensor<2x10x4xf32>) -> tensor<2x10x4xf32>
  return %y : tensor<2x10x4xf32>
}

// CHECK-LABEL: func.func @softmax_grad
func.func @softmax_grad(%dy: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[P:.*]] = mpc.mul %[[DY:.*]], %[[Y:.*]] :
  // CHECK: %[[S:.*]] = mpc.reduce_sum %[[P]]
  // CHECK: %[[D:.*]] = mpc.sub %[[DY]], %[[S]]
  // CHECK: mpc.mul %[[Y]], %[[D]]
  %dx = mpc.softmax_grad %dy, %y {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %dx : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @log_softmax_grad
func.func @log_softmax_grad(%dy: tensor<4x8xf64>, %y: tensor<4x8xf64>) -> tensor<4x8xf64> {
  // CHECK: mpc.reduce_sum {{.*}} -> tensor<4x1xf64>
  // CHECK: mpc.exp {{.*}} -> tensor<4x8xf64>
  %dx = mpc.log_softmax_grad %dy, %y {axis = 1 : i64} : (tensor<4x8xf64>, tensor<4x8xf64>) -> tensor<4x8xf64>
  return %dx : tensor<4x8xf64>
}
