// RUN: mpc-opt %s -mpc-expand-gradients | FileCheck %s

// CHECK-LABEL: func @movement
// CHECK: mpc.concat %{{.*}}, %{{.*}} {axis = 1 : i64
// CHECK: mpc.slice %{{.*}} {mpc.phase = #mpc.phase<backward>, offsets = array<i64: 0, 0>, sizes = array<i64: 3, 2>}
// CHECK: mpc.transpose %{{.*}} {mpc.phase = #mpc.phase<backward>, perm = array<i64: 1, 0>}
// CHECK: mpc.reshape %{{.*}} -> tensor<6xf32>
func.func @movement(%x: tensor<6xf32>, %z: tensor<3x2xf32>) -> tensor<6xf32> {
  %0 = mpc.reshape %x : (tensor<6xf32>) -> tensor<2x3xf32>
  %1 = mpc.transpose %0 {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = mpc.concat %1, %z {axis = 1 : i64} : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
  %3 = mpc.slice %2 {offsets = array<i64: 0, 1>, sizes = array<i64: 3, 3>} : (tensor<3x4xf32>) -> tensor<3x3xf32>
  %g = mpc.gradient %3 wrt %x : tensor<3x3xf32>, (tensor<6xf32>) -> (tensor<6xf32>)
  return %g : tensor<6xf32>
}

// CHECK-LABEL: func @pad
// CHECK: mpc.pad
// CHECK: mpc.slice %{{.*}} {mpc.phase = #mpc.phase<backward>, offsets = array<i64: 1, 0>, sizes = array<i64: 2, 3>}
func.func @pad(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = mpc.pad %x {offsets = array<i64: 1, 0>, shape = array<i64: 4, 5>} : (tensor<2x3xf32>) -> tensor<4x5xf32>
  %g = mpc.gradient %0 wrt %x : tensor<4x5xf32>, (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  return %g : tensor<2x3xf32>
}

// The gradient sums from the other end, with the same exclusion.
// CHECK-LABEL: func @cumsum
// CHECK: mpc.cumsum %{{.*}} {axis = 1 : i64, exclusive = true, mpc.phase = #mpc.phase<backward>, reverse = true}
func.func @cumsum(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = mpc.cumsum %x {axis = 1 : i64, exclusive = true} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %g = mpc.gradient %0 wrt %x : tensor<2x3xf32>, (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  return %g : tensor<2x3xf32>
}

// CHECK-LABEL: func @reductions
// CHECK: mpc.reshape %{{.*}} -> tensor<4x1xf32>
// CHECK: mpc.expand %{{.*}} -> tensor<4x8xf32>
// CHECK: mpc.constant {{.*}}dense<8.000000e+00>
// CHECK: mpc.div
func.func @reductions(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = mpc.reduce_mean %x {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %g = mpc.gradient %1 wrt %x : tensor<f32>, (tensor<4x8xf32>) -> (tensor<4x8xf32>)
  return %g : tensor<4x8xf32>
}

// CHECK-LABEL: func @losses
// CHECK: mpc.nll_loss_grad %{{.*}} {{{.*}}reduction = #mpc.reduction<sum>}
// CHECK: mpc.log_softmax_grad
func.func @losses(%x: tensor<4x8xf32>, %t: tensor<4xi64>) -> tensor<4x8xf32> {
  %0 = mpc.log_softmax %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.nll_loss %0, %t {reduction = #mpc.reduction<sum>} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<f32>
  %g = mpc.gradient %1 wrt %x : tensor<f32>, (tensor<4x8xf32>) -> (tensor<4x8xf32>)
  return %g : tensor<4x8xf32>
}
