// RUN: mpc-opt %s -mpc-expand-gradients | FileCheck %s

// One function per op, with the gradient from the op's rule.

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

// Gradients of adjacent slices are joined, in whatever order they are used. The
// gradient of a single slice is padded with zeros. Neither uses a constant.
// CHECK-LABEL: func @split
// CHECK-NOT: mpc.constant
// CHECK: %[[A:.*]] = mpc.mul {{.*}}backward
// CHECK: %[[B:.*]] = mpc.mul {{.*}}backward
// CHECK: %[[C:.*]] = mpc.mul {{.*}}backward
// CHECK: %[[JOINED:.*]] = mpc.concat %[[C]], %[[B]], %[[A]] {axis = 1 : i64, mpc.phase = #mpc.phase<backward>} : {{.*}} -> tensor<4x8xf32>
// CHECK-NOT: mpc.constant
// CHECK: return %[[JOINED]]
func.func @split(%x: tensor<4x8xf32>, %a: tensor<4x3xf32>, %b: tensor<4x2xf32>) -> tensor<4x8xf32> {
  %0 = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 3>} : (tensor<4x8xf32>) -> tensor<4x3xf32>
  %1 = mpc.slice %x {offsets = array<i64: 0, 3>, sizes = array<i64: 4, 3>} : (tensor<4x8xf32>) -> tensor<4x3xf32>
  %2 = mpc.slice %x {offsets = array<i64: 0, 6>, sizes = array<i64: 4, 2>} : (tensor<4x8xf32>) -> tensor<4x2xf32>
  %3 = mpc.mul %0, %a : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.mul %1, %a : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %5 = mpc.mul %2, %b : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %6 = mpc.concat %3, %4, %5 {axis = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  %7 = mpc.reduce_sum %6 {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %g = mpc.gradient %7 wrt %x : tensor<f32>, (tensor<4x8xf32>) -> (tensor<4x8xf32>)
  return %g : tensor<4x8xf32>
}

// Overlapping gradients are added: the joined box of two adjacent slices, and the box of a third.
// CHECK-LABEL: func @slices
// CHECK: %[[PAIR:.*]] = mpc.concat %{{.*}}, %{{.*}} {axis = 0 : i64, mpc.phase = #mpc.phase<backward>} : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
// CHECK: %[[P:.*]] = mpc.pad %[[PAIR]] {mpc.phase = #mpc.phase<backward>, offsets = array<i64: 1>, shape = array<i64: 8>} : (tensor<5xf32>) -> tensor<8xf32>
// CHECK: %[[Q:.*]] = mpc.pad %{{.*}} {mpc.phase = #mpc.phase<backward>, offsets = array<i64: 2>, shape = array<i64: 8>} : (tensor<4xf32>) -> tensor<8xf32>
// CHECK: mpc.add %[[P]], %[[Q]]
func.func @slices(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.slice %x {offsets = array<i64: 1>, sizes = array<i64: 2>} : (tensor<8xf32>) -> tensor<2xf32>
  %1 = mpc.slice %x {offsets = array<i64: 2>, sizes = array<i64: 4>} : (tensor<8xf32>) -> tensor<4xf32>
  %2 = mpc.slice %x {offsets = array<i64: 3>, sizes = array<i64: 3>} : (tensor<8xf32>) -> tensor<3xf32>
  %3 = mpc.concat %0, %1, %2 {axis = 0 : i64} : (tensor<2xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<9xf32>
  %g = mpc.gradient %3 wrt %x : tensor<9xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// CHECK-LABEL: func @pad
// CHECK: mpc.pad
// CHECK: mpc.slice %{{.*}} {mpc.phase = #mpc.phase<backward>, offsets = array<i64: 1, 0>, sizes = array<i64: 2, 3>}
func.func @pad(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = mpc.pad %x {offsets = array<i64: 1, 0>, shape = array<i64: 4, 5>} : (tensor<2x3xf32>) -> tensor<4x5xf32>
  %g = mpc.gradient %0 wrt %x : tensor<4x5xf32>, (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  return %g : tensor<2x3xf32>
}

// The slice takes every second element from the end. The gradient is scattered back.
// CHECK-LABEL: func @strided
// CHECK: mpc.pad %{{.*}} {mpc.phase = #mpc.phase<backward>, offsets = array<i64: 6>, shape = array<i64: 8>, strides = array<i64: -2>} : (tensor<3xf32>) -> tensor<8xf32>
func.func @strided(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.slice %x {offsets = array<i64: 6>, sizes = array<i64: 3>, strides = array<i64: -2>} : (tensor<8xf32>) -> tensor<3xf32>
  %g = mpc.gradient %0 wrt %x : tensor<3xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// CHECK-LABEL: func @strided_pad
// CHECK: mpc.slice %{{.*}} {mpc.phase = #mpc.phase<backward>, offsets = array<i64: 6>, sizes = array<i64: 3>, strides = array<i64: -2>}
func.func @strided_pad(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = mpc.pad %x {offsets = array<i64: 6>, shape = array<i64: 8>, strides = array<i64: -2>} : (tensor<3xf32>) -> tensor<8xf32>
  %g = mpc.gradient %0 wrt %x : tensor<8xf32>, (tensor<3xf32>) -> (tensor<3xf32>)
  return %g : tensor<3xf32>
}

// The gradient sums from the other end, with the same exclusion.
// CHECK-LABEL: func @cumsum
// CHECK: mpc.cumsum %{{.*}} {axis = 1 : i64, exclusive = true, mpc.phase = #mpc.phase<backward>, reverse = true}
func.func @cumsum(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = mpc.cumsum %x {axis = 1 : i64, exclusive = true} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %g = mpc.gradient %0 wrt %x : tensor<2x3xf32>, (tensor<2x3xf32>) -> (tensor<2x3xf32>)
  return %g : tensor<2x3xf32>
}

// A constant exponent needs no comparison with zero. x^2, x^3, x^-1 and x^0
// become products, not powers.
// CHECK-LABEL: func @constant_powers
// CHECK-NOT: mpc.select
// CHECK-COUNT-1: mpc.pow {{.*}}backward
// CHECK-NOT: mpc.pow {{.*}}backward
// CHECK: return
func.func @constant_powers(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = mpc.constant dense<2.0> : tensor<f32>
  %three = mpc.constant dense<3.0> : tensor<f32>
  %minus = mpc.constant dense<-1.0> : tensor<f32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.pow %x, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = mpc.pow %0, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = mpc.pow %1, %minus : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = mpc.pow %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = mpc.add %2, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = mpc.gradient %4 wrt %x : tensor<4xf32>, (tensor<4xf32>) -> (tensor<4xf32>)
  return %g : tensor<4xf32>
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

// The backward pass draws a dropout's mask again from the same counters.
// CHECK-LABEL: func @dropout
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<i64>, %[[M:[a-z0-9]+]]: tensor<i64>
// CHECK: mpc.dropout %{{.*}}, %[[S]], %[[M]] {id = 7 : i64, ratio
// CHECK: mpc.dropout %{{.*}}, %[[S]], %[[M]] {id = 7 : i64, mpc.phase = #mpc.phase<backward>
func.func @dropout(%x: tensor<8xf32>, %s: tensor<i64>, %m: tensor<i64>) -> tensor<8xf32> {
  %0 = mpc.dropout %x, %s, %m {ratio = 0.5 : f64, id = 7 : i64} : (tensor<8xf32>, tensor<i64>, tensor<i64>) -> tensor<8xf32>
  %g = mpc.gradient %0 wrt %x : tensor<8xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
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
