// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-decompose))" | FileCheck %s

// Variance is the mean of squared distances from the mean: two passes.
// CHECK-LABEL: func.func @batch_norm
func.func @batch_norm(%x: tensor<2x4x4x3xbf16>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>)
    -> (tensor<2x4x4x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  // CHECK: %[[M:.*]] = mpc.reduce_mean %{{.*}} {axes = array<i64: 0, 1, 2>, keepdims = true} : (tensor<2x4x4x3xbf16>) -> tensor<1x1x1x3xf32>
  // CHECK: %[[MEAN:.*]] = mpc.reshape %[[M]]
  // CHECK: %[[D:.*]] = mpc.sub %{{.*}}, %[[MEAN]] : (tensor<2x4x4x3xbf16>, tensor<3xf32>) -> tensor<2x4x4x3xf32>
  // CHECK: %[[SQ:.*]] = mpc.mul %[[D]], %[[D]]
  // CHECK: mpc.reduce_mean %[[SQ]]
  // CHECK: mpc.sqrt
  // CHECK: mpc.reciprocal
  // CHECK: mpc.add %{{.*}} -> tensor<2x4x4x3xbf16>
  %y, %mean, %inv, %rm, %rv = mpc.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64, layout = #mpc.layout<NHWC>}
      : (tensor<2x4x4x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<2x4x4x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y, %mean, %inv, %rm, %rv : tensor<2x4x4x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// A vector of channels broadcasts over NCHW with the spatial axes behind it.
// CHECK-LABEL: func.func @inference
func.func @inference(%x: tensor<2x3x4x4xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> tensor<2x3x4x4xf32> {
  // CHECK: mpc.reshape %{{.*}} : (tensor<3xf32>) -> tensor<3x1x1xf32>
  // CHECK: mpc.sub %{{.*}} : (tensor<2x3x4x4xf32>, tensor<3x1x1xf32>)
  %y = mpc.batch_norm_inference %x, %s, %b, %m, %v {epsilon = 1.0e-5 : f64}
      : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x4xf32>
  return %y : tensor<2x3x4x4xf32>
}

// CHECK-LABEL: func.func @gradient
func.func @gradient(%dy: tensor<2x4x4x3xf32>, %x: tensor<2x4x4x3xf32>, %s: tensor<3xf32>, %m: tensor<3xf32>, %i: tensor<3xf32>)
    -> (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  // CHECK-COUNT-2: mpc.reduce_sum %{{.*}} {axes = array<i64: 0, 1, 2>, keepdims = true}
  // 3 channels of 96 elements.
  // CHECK: mpc.constant dense<3.125000e-02>
  %dx, %ds, %db = mpc.batch_norm_grad %dy, %x, %s, %m, %i {layout = #mpc.layout<NHWC>}
      : (tensor<2x4x4x3xf32>, tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %dx, %ds, %db : tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @global_pool
func.func @global_pool(%x: tensor<2x4x4x3xf32>, %dy: tensor<2x1x1x3xf32>) -> (tensor<2x1x1x3xf32>, tensor<2x4x4x3xf32>) {
  // CHECK: mpc.reduce_mean %{{.*}} {axes = array<i64: 1, 2>, keepdims = true}
  // CHECK: mpc.constant dense<6.250000e-02>
  // CHECK: mpc.expand %{{.*}} : (tensor<2x1x1x3xf32>) -> tensor<2x4x4x3xf32>
  %y = mpc.global_average_pool %x {layout = #mpc.layout<NHWC>} : (tensor<2x4x4x3xf32>) -> tensor<2x1x1x3xf32>
  %dx = mpc.global_average_pool_grad %dy {layout = #mpc.layout<NHWC>} : (tensor<2x1x1x3xf32>) -> tensor<2x4x4x3xf32>
  return %y, %dx : tensor<2x1x1x3xf32>, tensor<2x4x4x3xf32>
}

// CHECK-LABEL: func.func @clip
func.func @clip(%a: tensor<8xf32>, %b: tensor<4x8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>, tensor<f32>) {
  // CHECK: %[[NORM:.*]] = mpc.sqrt
  // CHECK: %[[FACTOR:.*]] = mpc.minimum
  // CHECK: mpc.mul %{{.*}}, %[[FACTOR]] : (tensor<8xf32>, tensor<f32>)
  // CHECK: mpc.mul %{{.*}}, %[[FACTOR]] : (tensor<4x8xf32>, tensor<f32>)
  %0, %1, %norm = mpc.clip_grad_norm %a, %b {max_norm = 1.0 : f64}
      : (tensor<8xf32>, tensor<4x8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>, tensor<f32>)
  return %0, %1, %norm : tensor<8xf32>, tensor<4x8xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @finite
func.func @finite(%a: tensor<8xbf16>, %b: tensor<4x8xf32>) -> tensor<i1> {
  // CHECK: amp.non_finite %{{.*}} : (tensor<8xbf16>) -> tensor<8xf32>
  // CHECK: mpc.reduce_max
  // CHECK: amp.non_finite %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[WORST:.*]] = mpc.maximum
  // CHECK: %[[GOOD:.*]] = mpc.sub %{{.*}}, %[[WORST]]
  // CHECK: mpc.cast %[[GOOD]] : (tensor<f32>) -> tensor<i1>
  %ok = amp.all_finite %a, %b : (tensor<8xbf16>, tensor<4x8xf32>) -> tensor<i1>
  return %ok : tensor<i1>
}

// CHECK-LABEL: func.func @seed
func.func @seed() -> tensor<f32> {
  // CHECK: mpc.constant dense<1.000000e+00> : tensor<f32>
  %s = mpc.gradient_seed : tensor<f32>
  return %s : tensor<f32>
}
