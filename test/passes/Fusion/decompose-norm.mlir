// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-decompose))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(mpc-decompose))" | FileCheck %s --check-prefixes=CHECK,GPU

// The variance is the mean of squared distances from the mean: two passes.
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

// A vector of channels broadcasts over NCHW, with spatial axes of length one behind it.
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

// The mean comes first, then the mean of squared distances, in f32.
// CHECK-LABEL: func.func @layer_norm
func.func @layer_norm(%x: tensor<4x8xbf16>, %scale: tensor<8xf32>, %bias: tensor<8xf32>) -> (tensor<4x8xbf16>, tensor<4x1xf32>, tensor<4x1xf32>) {
  // CHECK: %[[MEAN:.*]] = mpc.reduce_mean %arg0 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xbf16>) -> tensor<4x1xf32>
  // CHECK: %[[CENTRED:.*]] = mpc.sub %arg0, %[[MEAN]] {{.*}} -> tensor<4x8xf32>
  // CHECK: %[[SQUARE:.*]] = mpc.mul %[[CENTRED]], %[[CENTRED]]
  // CHECK: %[[VAR:.*]] = mpc.reduce_mean %[[SQUARE]]
  // CHECK: %[[SUM:.*]] = mpc.add %[[VAR]]
  // CHECK: %[[ROOT:.*]] = mpc.sqrt %[[SUM]]
  // CHECK: %[[INV:.*]] = mpc.reciprocal %[[ROOT]]
  // CHECK: %[[N:.*]] = mpc.mul %[[CENTRED]], %[[INV]]
  // CHECK: %[[SCALED:.*]] = mpc.mul %[[N]], %arg1
  // CHECK: %[[Y:.*]] = mpc.add %[[SCALED]], %arg2 {{.*}} -> tensor<4x8xbf16>
  // CHECK: return %[[Y]], %[[MEAN]], %[[INV]]
  %y, %mean, %inv = mpc.layer_norm %x, %scale, %bias {axes = array<i64: 1>, epsilon = 1.0e-5 : f64}
      : (tensor<4x8xbf16>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xbf16>, tensor<4x1xf32>, tensor<4x1xf32>)
  return %y, %mean, %inv : tensor<4x8xbf16>, tensor<4x1xf32>, tensor<4x1xf32>
}

// CHECK-LABEL: func.func @layer_norm_grad
func.func @layer_norm_grad(%dy: tensor<2x4x8xf32>, %x: tensor<2x4x8xf32>, %scale: tensor<4x1xf32>, %mean: tensor<2x1x1xf32>, %inv: tensor<2x1x1xf32>) -> (tensor<2x4x8xf32>, tensor<4x1xf32>) {
  // CHECK: %[[CENTRED:.*]] = mpc.sub %arg1, %arg3
  // CHECK: %[[XHAT:.*]] = mpc.mul %[[CENTRED]], %arg4
  // CHECK: %[[G:.*]] = mpc.mul %arg0, %arg2
  // CHECK: %[[GX:.*]] = mpc.mul %[[G]], %[[XHAT]]
  // CHECK: %[[SHARE:.*]] = mpc.reduce_mean %[[GX]] {axes = array<i64: 1, 2>
  // CHECK: %[[ALONG:.*]] = mpc.mul %[[XHAT]], %[[SHARE]]
  // CHECK: %[[REST:.*]] = mpc.sub %[[G]], %[[ALONG]]
  // CHECK: %[[MEAN:.*]] = mpc.reduce_mean %[[G]] {axes = array<i64: 1, 2>
  // CHECK: %[[CENTRED_REST:.*]] = mpc.sub %[[REST]], %[[MEAN]]
  // CHECK: %[[DX:.*]] = mpc.mul %[[CENTRED_REST]], %arg4
  // CHECK: %[[TERMS:.*]] = mpc.mul %arg0, %[[XHAT]]
  // CHECK: %[[SUM:.*]] = mpc.reduce_sum %[[TERMS]] {axes = array<i64: 0, 2>, keepdims = true}
  // CHECK: %[[DSCALE:.*]] = mpc.reshape %[[SUM]] {{.*}} -> tensor<4x1xf32>
  // CHECK: return %[[DX]], %[[DSCALE]]
  %dx, %dscale = mpc.layer_norm_grad %dy, %x, %scale, %mean, %inv {axes = array<i64: 1, 2>}
      : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<4x1xf32>, tensor<2x1x1xf32>, tensor<2x1x1xf32>) -> (tensor<2x4x8xf32>, tensor<4x1xf32>)
  return %dx, %dscale : tensor<2x4x8xf32>, tensor<4x1xf32>
}

// RMS norm subtracts no mean.
// CHECK-LABEL: func.func @rms_norm
func.func @rms_norm(%x: tensor<4x8xf32>, %scale: tensor<8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) {
  // CHECK-NOT: mpc.sub
  // CHECK: %[[SQUARE:.*]] = mpc.mul %arg0, %arg0
  // CHECK: %[[INV:.*]] = mpc.reciprocal
  // CHECK: %[[N:.*]] = mpc.mul %arg0, %[[INV]]
  // CHECK: %[[Y:.*]] = mpc.mul %[[N]], %arg1
  %y, %inv = mpc.rms_norm %x, %scale {axes = array<i64: 1>, epsilon = 1.0e-6 : f64}
      : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>)
  // CHECK: mpc.reduce_mean
  // CHECK: %[[REST:.*]] = mpc.sub
  // CHECK-NOT: mpc.reduce_mean
  // CHECK: %[[DX:.*]] = mpc.mul %[[REST]], %[[INV]]
  %dx, %dscale = mpc.rms_norm_grad %dy, %x, %scale, %inv {axes = array<i64: 1>}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x1xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  return %y, %dx, %dscale : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>
}

// A GPU reads 16-bit images once, for both moments of the distances from the
// middle pixel. A CPU reads the images twice.
// CHECK-LABEL: func.func @images
// GPU: %[[P:.*]] = mpc.slice %arg0 {offsets = array<i64: 0, 3, 4, 0>, sizes = array<i64: 2, 1, 1, 3>} : (tensor<2x6x8x3xbf16>) -> tensor<2x1x1x3xbf16>
// GPU: %[[D:.*]] = mpc.sub %arg0, %[[P]] : (tensor<2x6x8x3xbf16>, tensor<2x1x1x3xbf16>) -> tensor<2x6x8x3xf32>
// GPU: %[[FIRST:.*]] = mpc.reduce_mean %[[D]] {axes = array<i64: 1, 2>, keepdims = true}
// GPU: %[[SQ:.*]] = mpc.mul %[[D]], %[[D]]
// GPU: %[[SECOND:.*]] = mpc.reduce_mean %[[SQ]] {axes = array<i64: 1, 2>, keepdims = true}
// GPU: %[[MEANS:.*]] = mpc.add %[[FIRST]], %[[P]]
// GPU: %[[LOST:.*]] = mpc.mul %[[FIRST]], %[[FIRST]]
// GPU: %[[DIFF:.*]] = mpc.sub %[[SECOND]], %[[LOST]]
// GPU: %[[VARS:.*]] = mpc.maximum %[[DIFF]]
// GPU: %[[MEAN:.*]] = mpc.reduce_mean %[[MEANS]] {axes = array<i64: 0>
// GPU: %[[APART:.*]] = mpc.sub %[[MEANS]], %[[MEAN]]
// GPU: %[[SQUARE:.*]] = mpc.mul %[[APART]], %[[APART]]
// GPU: %[[ALL:.*]] = mpc.add %[[VARS]], %[[SQUARE]]
// GPU: mpc.reduce_mean %[[ALL]] {axes = array<i64: 0>
// CHECK: mpc.sqrt
func.func @images(%x: tensor<2x6x8x3xbf16>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>)
    -> (tensor<2x6x8x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %y, %mean, %inv, %rm, %rv = mpc.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64, layout = #mpc.layout<NHWC>}
      : (tensor<2x6x8x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<2x6x8x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y, %mean, %inv, %rm, %rv : tensor<2x6x8x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// Large images are split into bands of at most 4096 pixels: 124 rows into four
// bands of 31.
// CHECK-LABEL: func.func @bands
// GPU: %[[BANDS:.*]] = mpc.reshape %arg0 : (tensor<2x124x132x3xbf16>) -> tensor<8x31x132x3xbf16>
// GPU: %[[P:.*]] = mpc.slice %[[BANDS]] {offsets = array<i64: 0, 15, 66, 0>, sizes = array<i64: 8, 1, 1, 3>}
// GPU: mpc.sub %[[BANDS]], %[[P]]
func.func @bands(%x: tensor<2x124x132x3xbf16>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>)
    -> tensor<2x124x132x3xbf16> {
  %y, %mean, %inv, %rm, %rv = mpc.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64, layout = #mpc.layout<NHWC>}
      : (tensor<2x124x132x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<2x124x132x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y : tensor<2x124x132x3xbf16>
}

// A prime number of short rows makes no bands, and f32 numbers would lose
// digits: both are read twice.
// CHECK-LABEL: func.func @short_rows
// CHECK-NOT: mpc.slice
func.func @short_rows(%x: tensor<2x4099x4x3xbf16>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>)
    -> tensor<2x4099x4x3xbf16> {
  %y, %mean, %inv, %rm, %rv = mpc.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64, layout = #mpc.layout<NHWC>}
      : (tensor<2x4099x4x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<2x4099x4x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y : tensor<2x4099x4x3xbf16>
}

// CHECK-LABEL: func.func @wide
// CHECK-NOT: mpc.slice
func.func @wide(%x: tensor<2x6x8x3xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>)
    -> tensor<2x6x8x3xf32> {
  %y, %mean, %inv, %rm, %rv = mpc.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64, layout = #mpc.layout<NHWC>}
      : (tensor<2x6x8x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<2x6x8x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y : tensor<2x6x8x3xf32>
}
