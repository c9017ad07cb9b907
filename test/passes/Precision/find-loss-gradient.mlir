// RUN: mpc-opt %s -split-input-file -amp-find-loss-gradient="mode=16-mixed" | FileCheck %s
// RUN: mpc-opt %s -split-input-file -amp-find-loss-gradient="mode=32-true" | FileCheck %s --check-prefix=NONE
// RUN: mpc-opt %s -split-input-file -amp-find-loss-gradient="mode=16-mixed loss-scale=none" | FileCheck %s --check-prefix=NONE
// RUN: mpc-opt %s -split-input-file -amp-find-loss-gradient="mode=bf16-mixed loss-scale=128" | FileCheck %s

mpc.variable @w : tensor<4x2xf32> role parameter
mpc.variable @b : tensor<2xf32> role parameter

// The difference is a multiple neither of the product nor of the target, and it
// is the first value that depends on w and b. The transposed input is earlier,
// and w's gradient is a multiple of it too, but it depends on no parameter.
// CHECK-LABEL: func @two_parameters
// NONE-LABEL: func @two_parameters
// NONE-NOT: gradient_seed
func.func @two_parameters(%x: tensor<8x4xf32>, %t: tensor<8x2xf32>, %w: tensor<4x2xf32> {mpc.state = @w},
                %b: tensor<2xf32> {mpc.state = @b}, %lr: tensor<f32>)
    -> (tensor<4x2xf32> {mpc.updates = @w}, tensor<2xf32> {mpc.updates = @b}) {
  %p = mpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %y = mpc.add %p, %b : (tensor<8x2xf32>, tensor<2xf32>) -> tensor<8x2xf32>
  // CHECK: %[[XT:.*]] = mpc.transpose
  %xt = mpc.transpose %x {perm = array<i64: 1, 0>, mpc.phase = #mpc.phase<backward>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  // CHECK: %[[D:.*]] = mpc.sub
  %d = mpc.sub %y, %t {mpc.phase = #mpc.phase<backward>} : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  // CHECK: %[[SEED:.*]] = mpc.gradient_seed {{.*}} : tensor<f32>
  // CHECK: %[[S:.*]] = mpc.mul %[[D]], %[[SEED]] {{.*}}backward
  // CHECK: mpc.matmul %[[XT]], %[[S]]
  %gw = mpc.matmul %xt, %d {mpc.phase = #mpc.phase<backward>} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // CHECK: mpc.reduce_sum %[[S]]
  %gb = mpc.reduce_sum %d {axes = array<i64: 0>, keepdims = false, mpc.phase = #mpc.phase<backward>} : (tensor<8x2xf32>) -> tensor<2xf32>
  %w1 = mpc.sgd %w, %gw, %lr : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %b1 = mpc.sgd %b, %gb, %lr : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %w1, %b1 : tensor<4x2xf32>, tensor<2xf32>
}

// -----

mpc.variable @w : tensor<4x2xf32> role parameter

// If the forward pass computes the difference for its loss, only the backward
// pass's use of it is scaled. The norm of the gradient belongs to the update.
// CHECK-LABEL: func @forward_difference
// NONE-LABEL: func @forward_difference
// NONE-NOT: gradient_seed
func.func @forward_difference(%x: tensor<8x4xf32>, %xt: tensor<4x8xf32>, %t: tensor<8x2xf32>, %w: tensor<4x2xf32> {mpc.state = @w},
                %lr: tensor<f32>)
    -> (tensor<4x2xf32> {mpc.updates = @w}, tensor<8x2xf32> {mpc.output = "loss"}) {
  %y = mpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  // CHECK: %[[D:.*]] = mpc.sub
  %d = mpc.sub %y, %t : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  // CHECK: %[[S:.*]] = mpc.mul %[[D]], %{{.*}} {mpc.phase = #mpc.phase<backward>} : (tensor<8x2xf32>, tensor<f32>)
  // CHECK: mpc.mul %[[D]], %[[D]]
  %loss = mpc.mul %d, %d : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  // CHECK: %[[G:.*]] = mpc.matmul %{{.*}}, %[[S]]
  %g = mpc.matmul %xt, %d {mpc.phase = #mpc.phase<backward>} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // CHECK: %[[SQUARES:.*]] = mpc.mul %[[G]], %[[G]] {mpc.phase = #mpc.phase<optimizer>}
  %squares = mpc.mul %g, %g {mpc.phase = #mpc.phase<backward>} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  // CHECK: mpc.reduce_sum %[[SQUARES]] {{.*}}optimizer
  %sum = mpc.reduce_sum %squares {axes = array<i64: 0, 1>, keepdims = false, mpc.phase = #mpc.phase<backward>} : (tensor<4x2xf32>) -> tensor<f32>
  %step = mpc.div %g, %sum {mpc.phase = #mpc.phase<optimizer>} : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %w1 = mpc.sgd %w, %step, %lr : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %w1, %loss : tensor<4x2xf32>, tensor<8x2xf32>
}

// -----

mpc.variable @w : tensor<4x2xf32> role parameter

// A start that the model names stays the only one.
// CHECK-LABEL: func @named
// NONE-LABEL: func @named
// CHECK: mpc.gradient_seed
// CHECK-NOT: mpc.gradient_seed
func.func @named(%x: tensor<8x2xf32>, %xt: tensor<4x8xf32>, %w: tensor<4x2xf32> {mpc.state = @w}, %lr: tensor<f32>)
    -> (tensor<4x2xf32> {mpc.updates = @w}) {
  %seed = mpc.gradient_seed {mpc.phase = #mpc.phase<backward>} : tensor<f32>
  %d = mpc.mul %x, %seed {mpc.phase = #mpc.phase<backward>} : (tensor<8x2xf32>, tensor<f32>) -> tensor<8x2xf32>
  %g = mpc.matmul %xt, %d {mpc.phase = #mpc.phase<backward>} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %w1 = mpc.sgd %w, %g, %lr : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %w1 : tensor<4x2xf32>
}
