// RUN: mpc-opt %s -mpc-expand-gradients | FileCheck %s

// CHECK-LABEL: func @conv
// CHECK-DAG: mpc.conv_input_grad %[[DY:.*]], %{{.*}} {{.*}} -> tensor<2x4x8x8xf32>
// CHECK-DAG: mpc.conv_weight_grad %{{.*}}, %{{.*}} -> tensor<16x4x3x3xf32>
// CHECK-DAG: mpc.reduce_sum %{{.*}} {axes = array<i64: 0, 2, 3>{{.*}} -> tensor<16xf32>
func.func @conv(%x: tensor<2x4x8x8xf32>, %w: tensor<16x4x3x3xf32>, %b: tensor<16xf32>) -> (tensor<2x4x8x8xf32>, tensor<16x4x3x3xf32>, tensor<16xf32>) {
  %y = mpc.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x4x8x8xf32>, tensor<16x4x3x3xf32>, tensor<16xf32>) -> tensor<2x16x8x8xf32>
  %g:3 = mpc.gradient %y wrt %x, %w, %b : tensor<2x16x8x8xf32>, (tensor<2x4x8x8xf32>, tensor<16x4x3x3xf32>, tensor<16xf32>) -> (tensor<2x4x8x8xf32>, tensor<16x4x3x3xf32>, tensor<16xf32>)
  return %g#0, %g#1, %g#2 : tensor<2x4x8x8xf32>, tensor<16x4x3x3xf32>, tensor<16xf32>
}

// CHECK-LABEL: func @pools
// CHECK: mpc.average_pool_grad
// CHECK: mpc.max_pool_grad %{{.*}}, %indices
func.func @pools(%x: tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32> {
  %0, %indices = mpc.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi32>)
  %1 = mpc.average_pool %0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>} : (tensor<2x4x4x4xf32>) -> tensor<2x4x2x2xf32>
  %g = mpc.gradient %1 wrt %x : tensor<2x4x2x2xf32>, (tensor<2x4x8x8xf32>) -> (tensor<2x4x8x8xf32>)
  return %g : tensor<2x4x8x8xf32>
}

// CHECK-LABEL: func @layer_norm
func.func @layer_norm(%x: tensor<4x8xf32>, %scale: tensor<8xf32>, %bias: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[Y:.*]], %[[MEAN:.*]], %[[INV:.*]] = mpc.layer_norm
  // CHECK: %[[DX:.*]], %[[DSCALE:.*]] = mpc.layer_norm_grad %[[DY:.*]], %arg0, %arg1, %[[MEAN]], %[[INV]] {axes = array<i64: 1>
  // CHECK: %[[DBIAS:.*]] = mpc.sum_to_size %[[DY]]
  // CHECK: return %[[DX]], %[[DSCALE]], %[[DBIAS]]
  %y, %mean, %inv = mpc.layer_norm %x, %scale, %bias {axes = array<i64: 1>, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  %g:3 = mpc.gradient %y wrt %x, %scale, %bias : tensor<4x8xf32>, (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %g#0, %g#1, %g#2 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
}

// A statistic's gradient does not need the output's gradient.
// CHECK-LABEL: func @layer_norm_statistics
// CHECK-NOT: mpc.layer_norm_grad
// CHECK: mpc.expand {{.*}} -> tensor<4x8xf32>
// CHECK-NOT: mpc.layer_norm_grad
func.func @layer_norm_statistics(%x: tensor<4x8xf32>, %scale: tensor<8xf32>) -> tensor<4x8xf32> {
  %y, %mean, %inv = mpc.layer_norm %x, %scale {axes = array<i64: 1>, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  %both = mpc.mul %mean, %inv : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %g = mpc.gradient %both wrt %x : tensor<4x1xf32>, (tensor<4x8xf32>) -> (tensor<4x8xf32>)
  return %g : tensor<4x8xf32>
}

// CHECK-LABEL: func @rms_norm
func.func @rms_norm(%x: tensor<4x8xf32>, %scale: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>) {
  // CHECK: %[[Y:.*]], %[[INV:.*]] = mpc.rms_norm
  // CHECK: %[[DX:.*]], %[[DSCALE:.*]] = mpc.rms_norm_grad %{{.*}}, %arg0, %arg1, %[[INV]] {axes = array<i64: 1>
  // CHECK: return %[[DX]], %[[DSCALE]]
  %y, %inv = mpc.rms_norm %x, %scale {axes = array<i64: 1>, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>)
  %g:2 = mpc.gradient %y wrt %x, %scale : tensor<4x8xf32>, (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  return %g#0, %g#1 : tensor<4x8xf32>, tensor<8xf32>
}
