// RUN: mpc-opt %s -mpc-expand-gradients -canonicalize | FileCheck %s

// The gradient is zero if no differentiable path leads from X to
// Y.
// CHECK-LABEL: func @independent
// CHECK: %[[Z:.*]] = mpc.constant {{.*}}dense<0.000000e+00> : tensor<8xf32>
// CHECK: return %[[Z]]
func.func @independent(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.neg %a : (tensor<8xf32>) -> tensor<8xf32>
  %g = mpc.gradient %0 wrt %b : tensor<8xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// No derivative passes a detached value, and no detaching op
// remains.
// CHECK-LABEL: func @stopped
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
// CHECK-NOT: mpc.stop_gradient
// CHECK: %[[SEED:.*]] = mpc.gradient_seed
// CHECK: %[[DX:.*]] = mpc.mul %[[SEED]], %[[X]]
// CHECK: return %[[DX]]
func.func @stopped(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.stop_gradient %x : tensor<4xf32>
  %1 = mpc.mul %x, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = mpc.gradient %1 wrt %x : tensor<4xf32>, (tensor<4xf32>) -> (tensor<4xf32>)
  return %g : tensor<4xf32>
}

// If the loss depends on a parameter only through a stop, its gradient is zero.
// CHECK-LABEL: func @all_stopped
// CHECK: mpc.constant {{.*}}dense<0.0
func.func @all_stopped(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.stop_gradient %x : tensor<4xf32>
  %1 = mpc.mul %0, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = mpc.gradient %1 wrt %x : tensor<4xf32>, (tensor<4xf32>) -> (tensor<4xf32>)
  return %g : tensor<4xf32>
}
