// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-cross-entropy))" | FileCheck %s

// CHECK-LABEL: func.func @softmax_log_and_likelihood
func.func @softmax_log_and_likelihood(%x: tensor<4x8xf32>, %labels: tensor<4xi64>, %weights: tensor<8xf32>) -> tensor<f32> {
  // CHECK-NEXT: %[[LOSS:.*]], %{{.*}} = mpc.softmax_cross_entropy_loss %arg0, %arg1, %arg2 {ignore_index = -100 : i64, reduction = "sum"} : {{.*}} -> (tensor<f32>, tensor<4x8xf32>)
  // CHECK-NEXT: return %[[LOSS]]
  %p = mpc.softmax %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = mpc.log %p : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = mpc.nll_loss %l, %labels, %weights {reduction = "sum", ignore_index = -100 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<8xf32>) -> tensor<f32>
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

// Classes on another axis; probabilities that are a result too.
// CHECK-LABEL: func.func @near_misses
// CHECK-NOT: mpc.softmax_cross_entropy_loss
// CHECK-NOT: mpc.log_softmax %arg0
func.func @near_misses(%x: tensor<4x8xf32>, %z: tensor<4x3x8xf32>, %labels: tensor<4x8xi64>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) {
  %p = mpc.softmax %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = mpc.log %p : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %rates = mpc.log_softmax %z {axis = 2 : i64} : (tensor<4x3x8xf32>) -> tensor<4x3x8xf32>
  %loss = mpc.nll_loss %rates, %labels {reduction = "mean"} : (tensor<4x3x8xf32>, tensor<4x8xi64>) -> tensor<f32>
  return %p, %l, %loss : tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>
}
