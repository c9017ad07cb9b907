// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-convert-conv-to-matmul))" | FileCheck %s

// Leading axes stay, so that users of the product can join its kernel.
// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<2x8x8x4xf32>, %w: tensor<6x4x1x1xf32>) -> tensor<2x8x8x6xf32> {
  // CHECK: %[[W:.*]] = mpc.reshape %{{.*}} : (tensor<6x4x1x1xf32>) -> tensor<6x4xf32>
  // CHECK: mpc.matmul %{{.*}}, %[[W]] {mpc.phase = #mpc.phase<forward>, transB = true} : (tensor<2x8x8x4xf32>, tensor<6x4xf32>) -> tensor<2x8x8x6xf32>
  %y = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>, mpc.phase = #mpc.phase<forward>}
      : (tensor<2x8x8x4xf32>, tensor<6x4x1x1xf32>) -> tensor<2x8x8x6xf32>
  return %y : tensor<2x8x8x6xf32>
}

// CHECK-LABEL: func.func @input_grad
func.func @input_grad(%dy: tensor<2x8x8x6xbf16>, %w: tensor<6x1x1x4xbf16>) -> tensor<2x8x8x4xf32> {
  // CHECK: %[[W:.*]] = mpc.reshape %{{.*}} : (tensor<6x1x1x4xbf16>) -> tensor<6x4xbf16>
  // CHECK: mpc.matmul %{{.*}}, %[[W]] : (tensor<2x8x8x6xbf16>, tensor<6x4xbf16>) -> tensor<2x8x8x4xf32>
  %dx = mpc.conv_input_grad %dy, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>, filter_layout = #mpc.filter_layout<OHWI>}
      : (tensor<2x8x8x6xbf16>, tensor<6x1x1x4xbf16>) -> tensor<2x8x8x4xf32>
  return %dx : tensor<2x8x8x4xf32>
}

// The product sums over the pixels.
// CHECK-LABEL: func.func @weight_grad
func.func @weight_grad(%x: tensor<2x8x8x4xbf16>, %dy: tensor<2x8x8x6xbf16>) -> tensor<6x4x1x1xf32> {
  // CHECK: %[[DY:.*]] = mpc.reshape %{{.*}} : (tensor<2x8x8x6xbf16>) -> tensor<128x6xbf16>
  // CHECK: %[[X:.*]] = mpc.reshape %{{.*}} : (tensor<2x8x8x4xbf16>) -> tensor<128x4xbf16>
  // CHECK: %[[DW:.*]] = mpc.matmul %[[DY]], %[[X]] {transA = true} : (tensor<128x6xbf16>, tensor<128x4xbf16>) -> tensor<6x4xf32>
  // CHECK: mpc.reshape %[[DW]] : (tensor<6x4xf32>) -> tensor<6x4x1x1xf32>
  %dw = mpc.conv_weight_grad %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
      : (tensor<2x8x8x4xbf16>, tensor<2x8x8x6xbf16>) -> tensor<6x4x1x1xf32>
  return %dw : tensor<6x4x1x1xf32>
}

// With strides, the product reads the pixels that the filter meets.
// CHECK-LABEL: func.func @strided
func.func @strided(%x: tensor<2x7x8x4xf32>, %w: tensor<6x4x1x1xf32>) -> tensor<2x4x4x6xf32> {
  // CHECK: %[[X:.*]] = mpc.slice %{{.*}} {mpc.phase = #mpc.phase<forward>, offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 4, 4, 4>, strides = array<i64: 1, 2, 2, 1>} : (tensor<2x7x8x4xf32>) -> tensor<2x4x4x4xf32>
  // CHECK: %[[W:.*]] = mpc.reshape {{.*}} : (tensor<6x4x1x1xf32>) -> tensor<6x4xf32>
  // CHECK: mpc.matmul %[[X]], %[[W]] {mpc.phase = #mpc.phase<forward>, transB = true} : (tensor<2x4x4x4xf32>, tensor<6x4xf32>) -> tensor<2x4x4x6xf32>
  %y = mpc.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>, mpc.phase = #mpc.phase<forward>}
      : (tensor<2x7x8x4xf32>, tensor<6x4x1x1xf32>) -> tensor<2x4x4x6xf32>
  return %y : tensor<2x4x4x6xf32>
}

// The other pixels get zeros.
// CHECK-LABEL: func.func @strided_input_grad
func.func @strided_input_grad(%dy: tensor<2x4x4x6xf32>, %w: tensor<6x4x1x1xf32>) -> tensor<2x7x8x4xf32> {
  // CHECK: %[[DX:.*]] = mpc.matmul {{.*}} : (tensor<2x4x4x6xf32>, tensor<6x4xf32>) -> tensor<2x4x4x4xf32>
  // CHECK: mpc.pad %[[DX]] {offsets = array<i64: 0, 0, 0, 0>, shape = array<i64: 2, 7, 8, 4>, strides = array<i64: 1, 2, 2, 1>} : (tensor<2x4x4x4xf32>) -> tensor<2x7x8x4xf32>
  %dx = mpc.conv_input_grad %dy, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
      : (tensor<2x4x4x6xf32>, tensor<6x4x1x1xf32>) -> tensor<2x7x8x4xf32>
  return %dx : tensor<2x7x8x4xf32>
}

// CHECK-LABEL: func.func @strided_weight_grad
func.func @strided_weight_grad(%x: tensor<2x7x8x4xf32>, %dy: tensor<2x4x4x6xf32>) -> tensor<6x4x1x1xf32> {
  // CHECK-DAG: %[[MET:.*]] = mpc.slice {{.*}} -> tensor<2x4x4x4xf32>
  // CHECK-DAG: %[[DY:.*]] = mpc.reshape {{.*}} : (tensor<2x4x4x6xf32>) -> tensor<32x6xf32>
  // CHECK: %[[X:.*]] = mpc.reshape %[[MET]] : (tensor<2x4x4x4xf32>) -> tensor<32x4xf32>
  // CHECK: mpc.matmul %[[DY]], %[[X]] {transA = true} : (tensor<32x6xf32>, tensor<32x4xf32>) -> tensor<6x4xf32>
  %dw = mpc.conv_weight_grad %x, %dy {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
      : (tensor<2x7x8x4xf32>, tensor<2x4x4x6xf32>) -> tensor<6x4x1x1xf32>
  return %dw : tensor<6x4x1x1xf32>
}

// Padding, groups, larger filters or images with channels not last keep the op
// a convolution.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: mpc.conv
// CHECK-NOT: mpc.matmul
func.func @others(%x: tensor<2x8x8x4xf32>, %first: tensor<2x4x8x8xf32>, %w: tensor<4x4x1x1xf32>, %g: tensor<4x2x1x1xf32>, %k: tensor<4x4x1x3xf32>)
    -> (tensor<2x10x10x4xf32>, tensor<2x8x8x4xf32>, tensor<2x8x6x4xf32>, tensor<2x4x8x8xf32>) {
  %1 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
      : (tensor<2x8x8x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x10x10x4xf32>
  %2 = mpc.conv %x, %g {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64, layout = #mpc.layout<NHWC>}
      : (tensor<2x8x8x4xf32>, tensor<4x2x1x1xf32>) -> tensor<2x8x8x4xf32>
  %3 = mpc.conv %x, %k {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
      : (tensor<2x8x8x4xf32>, tensor<4x4x1x3xf32>) -> tensor<2x8x6x4xf32>
  %4 = mpc.conv %first, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x8x8xf32>
  return %1, %2, %3, %4 : tensor<2x10x10x4xf32>, tensor<2x8x8x4xf32>, tensor<2x8x6x4xf32>, tensor<2x4x8x8xf32>
}
