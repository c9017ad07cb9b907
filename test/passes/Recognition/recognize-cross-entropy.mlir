// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-cross-entropy))" | FileCheck %s

// CHECK-LABEL: func.func @softmax_log_and_likelihood
func.func @softmax_log_and_likelihood(%x: tensor<4x8xf32>, %labels: tensor<4xi64>, %weights: tensor<8xf32>) -> tensor<f32> {
  // CHECK-NEXT: %[[LOSS:.*]], %{{.*}} = mpc.softmax_cross_entropy_loss %arg0, %arg1, %arg2 {ignore_index = -100 : i64, reduction = #mpc.reduction<sum>} : {{.*}} -> (tensor<f32>, tensor<4x8xf32>)
  // CHECK-NEXT: return %[[LOSS]]
  %p = mpc.softmax %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = mpc.log %p : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = mpc.nll_loss %l, %labels, %weights {reduction = #mpc.reduction<sum>, ignore_index = -100 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// CHECK-LABEL: func.func @log_softmax
func.func @log_softmax(%x: tensor<4x6x8xf32>) -> tensor<4x6x8xf32> {
  // CHECK-NEXT: mpc.log_softmax %arg0 {axis = 2 : i64}
  // CHECK-NEXT: return
  %p = mpc.softmax %x {axis = 2 : i64} : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  %l = mpc.log %p : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  return %l : tensor<4x6x8xf32>
}

// Before opset 13, a softmax over axis 1 of more axes is a softmax of a matrix.
// CHECK-LABEL: func.func @matrix
func.func @matrix(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK-NEXT: %[[M:.*]] = mpc.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<2x12xf32>
  // CHECK-NEXT: %[[L:.*]] = mpc.log_softmax %[[M]] {axis = 1 : i64}
  // CHECK-NEXT: %[[Y:.*]] = mpc.reshape %[[L]] : (tensor<2x12xf32>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: return %[[Y]]
  %m = mpc.reshape %x : (tensor<2x3x4xf32>) -> tensor<2x12xf32>
  %p = mpc.softmax %m {axis = 1 : i64} : (tensor<2x12xf32>) -> tensor<2x12xf32>
  %b = mpc.reshape %p : (tensor<2x12xf32>) -> tensor<2x3x4xf32>
  %l = mpc.log %b : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %l : tensor<2x3x4xf32>
}

// PyTorch's exporter transposes the scores before and after: the classes are
// still on axis 1.
// CHECK-LABEL: func.func @transposed
func.func @transposed(%x: tensor<2x3x4x5xf32>, %labels: tensor<2x4x5xi64>) -> tensor<f32> {
  // CHECK-NEXT: %[[LOSS:.*]], %{{.*}} = mpc.softmax_cross_entropy_loss %arg0, %arg1
  // CHECK-NEXT: return %[[LOSS]]
  %t = mpc.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x3x4x5xf32>) -> tensor<2x4x5x3xf32>
  %p = mpc.softmax %t {axis = 3 : i64} : (tensor<2x4x5x3xf32>) -> tensor<2x4x5x3xf32>
  %b = mpc.transpose %p {perm = array<i64: 0, 3, 1, 2>} : (tensor<2x4x5x3xf32>) -> tensor<2x3x4x5xf32>
  %l = mpc.log %b : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %loss = mpc.nll_loss %l, %labels {reduction = #mpc.reduction<mean>} : (tensor<2x3x4x5xf32>, tensor<2x4x5xi64>) -> tensor<f32>
  return %loss : tensor<f32>
}

// The second transpose gives another order.
// CHECK-LABEL: func.func @another_order
// CHECK: mpc.transpose
// CHECK: mpc.log_softmax
// CHECK: mpc.transpose
// CHECK: mpc.nll_loss
func.func @another_order(%x: tensor<2x3x3x5xf32>, %labels: tensor<2x3x5xi64>) -> tensor<f32> {
  %t = mpc.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x3x3x5xf32>) -> tensor<2x3x5x3xf32>
  %p = mpc.log_softmax %t {axis = 3 : i64} : (tensor<2x3x5x3xf32>) -> tensor<2x3x5x3xf32>
  %b = mpc.transpose %p {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x3x5x3xf32>) -> tensor<2x3x3x5xf32>
  %loss = mpc.nll_loss %b, %labels {reduction = #mpc.reduction<mean>} : (tensor<2x3x3x5xf32>, tensor<2x3x5xi64>) -> tensor<f32>
  return %loss : tensor<f32>
}

// The classes are on another axis; the probabilities have another user.
// CHECK-LABEL: func.func @near_misses
// CHECK-NOT: mpc.softmax_cross_entropy_loss
// CHECK-NOT: mpc.log_softmax %arg0
func.func @near_misses(%x: tensor<4x8xf32>, %z: tensor<4x3x8xf32>, %labels: tensor<4x8xi64>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) {
  %p = mpc.softmax %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = mpc.log %p : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %rates = mpc.log_softmax %z {axis = 2 : i64} : (tensor<4x3x8xf32>) -> tensor<4x3x8xf32>
  %loss = mpc.nll_loss %rates, %labels {reduction = #mpc.reduction<mean>} : (tensor<4x3x8xf32>, tensor<4x8xi64>) -> tensor<f32>
  return %p, %l, %loss : tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>
}
