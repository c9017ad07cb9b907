// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=x86-64},func.func(mpc-convert-layout,cse))" | FileCheck %s

// There is one transpose in, one out, and none between.
// CHECK-LABEL: func.func @block
func.func @block(%x: tensor<2x4x8x8xf32>, %w: tensor<4x4x3x3xf32>, %b: tensor<4x1x1xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK: %[[X:.*]] = mpc.transpose %{{.*}} {perm = array<i64: 0, 2, 3, 1>}
  // CHECK: mpc.conv %[[X]], %{{.*}} {{.*}}layout = #mpc.layout<NHWC>
  // CHECK: %[[B:.*]] = mpc.reshape %{{.*}} : (tensor<4x1x1xf32>) -> tensor<1x1x1x4xf32>
  // CHECK: mpc.add %{{.*}}, %[[B]] : (tensor<2x8x8x4xf32>, tensor<1x1x1x4xf32>)
  // CHECK: mpc.relu
  // CHECK: mpc.add %{{.*}} : (tensor<2x8x8x4xf32>, tensor<2x8x8x4xf32>)
  // CHECK: mpc.max_pool %{{.*}}layout = #mpc.layout<NHWC>
  // CHECK: mpc.transpose %{{.*}} {perm = array<i64: 0, 3, 1, 2>}
  // CHECK-NEXT: return
  %0 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x8x8xf32>
  %1 = mpc.add %0, %b : (tensor<2x4x8x8xf32>, tensor<4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %2 = mpc.relu %1 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %3 = mpc.add %2, %x : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %y, %i = mpc.max_pool %3 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi32>)
  return %y : tensor<2x4x4x4xf32>
}

// With one channel or one pixel, no data moves.
// CHECK-LABEL: func.func @trivial
func.func @trivial(%x: tensor<2x1x8x8xf32>, %w: tensor<4x1x3x3xf32>) -> tensor<2x4xf32> {
  // CHECK-NOT: mpc.transpose
  // CHECK: mpc.reshape %{{.*}} : (tensor<2x1x8x8xf32>) -> tensor<2x8x8x1xf32>
  // CHECK: mpc.global_average_pool
  // CHECK-NEXT: mpc.reshape %{{.*}} : (tensor<2x1x1x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: return
  %0 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<2x1x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x8x8xf32>
  %1 = mpc.global_average_pool %0 : (tensor<2x4x8x8xf32>) -> tensor<2x4x1x1xf32>
  %2 = mpc.reshape %1 : (tensor<2x4x1x1xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// A bias gradient reduces either layout directly.
// CHECK-LABEL: func.func @bias_gradient
func.func @bias_gradient(%dy: tensor<2x4x4x4xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<4xf32> {
  // CHECK: mpc.conv_input_grad
  // CHECK-NEXT: mpc.reduce_sum %{{.*}} {axes = array<i64: 0, 1, 2>, keepdims = true}
  // CHECK-NEXT: mpc.reshape %{{.*}} : (tensor<1x1x1x4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: return
  %0 = mpc.conv_input_grad %dy, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x4x4xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x4x4xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0, 2, 3>} : (tensor<2x4x4x4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A full operand in the other order is transposed, so that the result need not be.
// CHECK-LABEL: func.func @mixed
func.func @mixed(%x: tensor<2x4x4x4xf32>, %dy: tensor<2x4x4x4xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK-DAG: mpc.transpose %arg0 {perm = array<i64: 0, 2, 3, 1>}
  // CHECK-DAG: mpc.transpose %arg1 {perm = array<i64: 0, 2, 3, 1>}
  // CHECK: mpc.relu_grad %{{.*}} : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>)
  // CHECK-NEXT: mpc.conv_input_grad
  %0 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32>
  %1 = mpc.relu_grad %dy, %0 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %2 = mpc.conv_input_grad %1, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32>
  return %2 : tensor<2x4x4x4xf32>
}

// A dropout's mask depends on positions, so dropout keeps its layout.
// CHECK-LABEL: func.func @dropout
func.func @dropout(%x: tensor<2x4x4x4xf32>, %w: tensor<4x4x1x1xf32>, %s: tensor<i64>) -> tensor<2x4x4x4xf32> {
  // CHECK: mpc.conv
  // CHECK-NEXT: mpc.transpose %{{.*}} {perm = array<i64: 0, 3, 1, 2>}
  // CHECK-NEXT: mpc.dropout
  // CHECK-NEXT: return
  %0 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32>
  %1 = mpc.dropout %0, %s, %s {ratio = 0.5 : f64, id = 1 : i64} : (tensor<2x4x4x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4x4x4xf32>
  return %1 : tensor<2x4x4x4xf32>
}

// CHECK-LABEL: func.func @concat
func.func @concat(%x: tensor<2x4x4x4xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK: mpc.concat %{{.*}} {axis = 3 : i64} : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x8xf32>
  // CHECK: mpc.slice %{{.*}} {offsets = array<i64: 0, 0, 0, 2>, sizes = array<i64: 2, 4, 4, 4>}
  // CHECK-NEXT: mpc.transpose
  %0 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<2x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32>
  %1 = mpc.concat %0, %0 {axis = 1 : i64} : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x8x4x4xf32>
  %2 = mpc.slice %1 {offsets = array<i64: 0, 2, 0, 0>, sizes = array<i64: 2, 4, 4, 4>} : (tensor<2x8x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %2 : tensor<2x4x4x4xf32>
}
