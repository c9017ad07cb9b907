// RUN: mpc-opt %s --split-input-file --pass-pipeline="builtin.module(mpc-attach-target{name=sm_80},func.func(mpc-convert-layout,cse))" | FileCheck %s

// A filter is transposed once for forward and backward. Its gradient is transposed back after
// unscaling and before the optimizer, whose state keeps its layout.
//
// CHECK-LABEL: func.func @training(%arg0: tensor<2x8x8x4xf32>, %arg1: tensor<6x4x3x3xf32>
// CHECK: %[[W:.*]] = mpc.transpose %arg1 {perm = array<i64: 0, 2, 3, 1>} : (tensor<6x4x3x3xf32>) -> tensor<6x3x3x4xf32>
// CHECK: mpc.conv %arg0, %[[W]] {{.*}}filter_layout = #mpc.filter_layout<OHWI>
// CHECK-NOT: mpc.transpose
// CHECK: mpc.conv_input_grad %{{.*}}, %[[W]] {{.*}}filter_layout = #mpc.filter_layout<OHWI>
// CHECK: %[[DW:.*]] = mpc.conv_weight_grad {{.*}}filter_layout = #mpc.filter_layout<OHWI>{{.*}} -> tensor<6x3x3x4xf32>
// CHECK-NEXT: %[[U:.*]] = amp.unscale %[[DW]], %{{.*}} : (tensor<6x3x3x4xf32>, tensor<f32>) -> tensor<6x3x3x4xf32>
// CHECK-NEXT: %[[T:.*]] = mpc.transpose %[[U]] {perm = array<i64: 0, 3, 1, 2>} : (tensor<6x3x3x4xf32>) -> tensor<6x4x3x3xf32>
// CHECK-NEXT: mpc.sgd %arg1, %[[T]], %{{.*}} -> tensor<6x4x3x3xf32>
mpc.variable @w : tensor<6x4x3x3xf32> role parameter
func.func @training(%x: tensor<2x8x8x4xf32>, %w: tensor<6x4x3x3xf32> {mpc.state = @w}, %dy: tensor<2x8x8x6xf32>, %scale: tensor<f32>, %lr: tensor<f32>)
    -> (tensor<2x8x8x6xf32>, tensor<2x8x8x4xf32>, tensor<6x4x3x3xf32> {mpc.updates = @w}) {
  %y = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
      : (tensor<2x8x8x4xf32>, tensor<6x4x3x3xf32>) -> tensor<2x8x8x6xf32>
  %dx = mpc.conv_input_grad %dy, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>, mpc.phase = #mpc.phase<backward>}
      : (tensor<2x8x8x6xf32>, tensor<6x4x3x3xf32>) -> tensor<2x8x8x4xf32>
  %dw = mpc.conv_weight_grad %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>, mpc.phase = #mpc.phase<backward>}
      : (tensor<2x8x8x4xf32>, tensor<2x8x8x6xf32>) -> tensor<6x4x3x3xf32>
  %u = amp.unscale %dw, %scale : (tensor<6x4x3x3xf32>, tensor<f32>) -> tensor<6x4x3x3xf32>
  %new = mpc.sgd %w, %u, %lr {weight_decay = 0.0 : f64} : (tensor<6x4x3x3xf32>, tensor<6x4x3x3xf32>, tensor<f32>) -> tensor<6x4x3x3xf32>
  return %y, %dx, %new : tensor<2x8x8x6xf32>, tensor<2x8x8x4xf32>, tensor<6x4x3x3xf32>
}

// -----

// With one input channel, both layouts have the same bytes. An accumulator is
// state and keeps its layout.
//
// CHECK-LABEL: func.func @reshaped
// CHECK-NOT: mpc.transpose
// CHECK: mpc.reshape %{{.*}} : (tensor<6x1x3x3xf32>) -> tensor<6x3x3x1xf32>
// CHECK: mpc.conv_weight_grad {{.*}} -> tensor<6x3x3x1xf32>
// CHECK: mpc.reshape %{{.*}} : (tensor<6x3x3x1xf32>) -> tensor<6x1x3x3xf32>
// CHECK: mpc.add %arg1, %{{.*}} -> tensor<6x1x3x3xf32>
mpc.variable @g : tensor<6x1x3x3xf32> role accumulator
func.func @reshaped(%x: tensor<2x1x8x8xf32>, %g: tensor<6x1x3x3xf32> {mpc.state = @g}, %w: tensor<6x1x3x3xf32>)
    -> (tensor<6x1x3x3xf32> {mpc.updates = @g}) {
  %y = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<2x1x8x8xf32>, tensor<6x1x3x3xf32>) -> tensor<2x6x8x8xf32>
  %dw = mpc.conv_weight_grad %x, %y {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<2x1x8x8xf32>, tensor<2x6x8x8xf32>) -> tensor<6x1x3x3xf32>
  %sum = mpc.add %g, %dw : (tensor<6x1x3x3xf32>, tensor<6x1x3x3xf32>) -> tensor<6x1x3x3xf32>
  return %sum : tensor<6x1x3x3xf32>
}
