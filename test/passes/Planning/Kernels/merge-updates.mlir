// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-merge-updates | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --plan-merge-updates | FileCheck %s --check-prefix=CPU
// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_80},func.func(plan-merge-updates,plan-order),plan-outline-kernels,plan-build-programs)" \
// RUN:   | FileCheck %s --check-prefix=PLAN

mpc.variable @w : tensor<8x4xf32> role parameter
mpc.variable @w_low : tensor<8x4xbf16> role derived
mpc.variable @b : tensor<8xf32> role parameter
mpc.variable @v : tensor<2x3xf32> role parameter
mpc.variable @v_low : tensor<2x3xbf16> role derived

// Updates that compute alike share a kernel, each with its own shape. An update
// that shares a gradient with another, or that reads a value that another
// update overwrites or computes, stays separate and runs first.
//
// CHECK-LABEL: func.func @step
// CHECK: mpc.region pointwise(%{{.*}}) {kernel = "update", mpc.phase = #mpc.phase<optimizer>} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<8xf32>, tensor<8xf32>)
// CHECK-SAME: -> (tensor<8x4xf32>, tensor<8x4xbf16>, tensor<2x3xf32>, tensor<2x3xbf16>, tensor<8xf32>)
// CHECK: ^bb0(%[[W:.*]]: tensor<8x4xf32>, %[[DW:.*]]: tensor<8x4xf32>, %[[LR:.*]]: tensor<f32>, %[[V:.*]]: tensor<2x3xf32>, %[[DV:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<8xf32>, %[[DB:.*]]: tensor<8xf32>)
// CHECK: mpc.region pointwise(%[[W]], %[[DW]], %[[LR]])
// CHECK: mpc.region pointwise(%[[V]], %[[DV]], %[[LR]])
// CHECK: mpc.region pointwise(%[[B]], %[[DB]], %[[LR]])
// CHECK: mpc.region pointwise(%{{.*}}) {kernel = "needed"}
// CHECK: mpc.region pointwise(%{{.*}}) {kernel = "reader"}
//
// CPU-LABEL: func.func @step
// CPU: kernel = "update"
// CPU: kernel = "b"
// CPU: kernel = "v"
//
// Each update starts at a slice boundary: 0, 1024 and 2048, for 8 elements.
// PLAN-LABEL: plan.program @step
// PLAN: plan.launch @needed
// PLAN: plan.launch @reader
// PLAN: plan.launch @update ins({{.*}}) outs(%[[W:[0-9]+]], %{{.*}}) extent 2056 grain 1024 threads 256
func.func @step(%w: tensor<8x4xf32> {mpc.state = @w}, %b: tensor<8xf32> {mpc.state = @b}, %v: tensor<2x3xf32> {mpc.state = @v},
                %dw: tensor<8x4xf32> {mpc.input = "dw"}, %db: tensor<8xf32> {mpc.input = "db"}, %dv: tensor<2x3xf32> {mpc.input = "dv"},
                %lr: tensor<f32> {mpc.input = "lr"})
    -> (tensor<8x4xf32> {mpc.updates = @w}, tensor<8x4xbf16> {mpc.updates = @w_low}, tensor<8xf32> {mpc.updates = @b},
        tensor<2x3xf32> {mpc.updates = @v}, tensor<2x3xbf16> {mpc.updates = @v_low}, tensor<8xf32> {mpc.output = "other"}) {
  %0:2 = mpc.region pointwise (%w, %dw, %lr) {kernel = "update", mpc.phase = #mpc.phase<optimizer>} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> (tensor<8x4xf32>, tensor<8x4xbf16>) {
  ^bb0(%p: tensor<8x4xf32>, %g: tensor<8x4xf32>, %r: tensor<f32>):
    %n = mpc.sgd %p, %g, %r {weight_decay = 0.0 : f64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    %c = amp.cast %n : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    mpc.yield %n, %c : tensor<8x4xf32>, tensor<8x4xbf16>
  }
  %1 = mpc.region pointwise (%b, %db, %lr) {kernel = "b"} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
  ^bb0(%p: tensor<8xf32>, %g: tensor<8xf32>, %r: tensor<f32>):
    %n = mpc.sgd %p, %g, %r {weight_decay = 0.0 : f64} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    mpc.yield %n : tensor<8xf32>
  }
  %needed = mpc.region pointwise (%db, %lr) {kernel = "needed"} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
  ^bb0(%g: tensor<8xf32>, %r: tensor<f32>):
    %n = mpc.sgd %g, %g, %r {weight_decay = 0.0 : f64} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    mpc.yield %n : tensor<8xf32>
  }
  %reader = mpc.region pointwise (%b, %needed, %lr) {kernel = "reader"} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
  ^bb0(%p: tensor<8xf32>, %g: tensor<8xf32>, %r: tensor<f32>):
    %n = mpc.sgd %p, %g, %r {weight_decay = 0.0 : f64} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    mpc.yield %n : tensor<8xf32>
  }
  %2:2 = mpc.region pointwise (%v, %dv, %lr) {kernel = "v"} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xbf16>) {
  ^bb0(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>, %r: tensor<f32>):
    %n = mpc.sgd %p, %g, %r {weight_decay = 0.0 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %c = amp.cast %n : (tensor<2x3xf32>) -> tensor<2x3xbf16>
    mpc.yield %n, %c : tensor<2x3xf32>, tensor<2x3xbf16>
  }
  return %0#0, %0#1, %1, %2#0, %2#1, %reader : tensor<8x4xf32>, tensor<8x4xbf16>, tensor<8xf32>, tensor<2x3xf32>, tensor<2x3xbf16>, tensor<8xf32>
}

// Sums over gradients are merged in rounds: sums that read other sums come later.
//
// CHECK-LABEL: func.func @sums
// CHECK: %[[FIRST:.*]]:2 = mpc.region row_reduce(%arg0, %arg1) {kernel = "first", mpc.phase = #mpc.phase<optimizer>} : (tensor<8x4xf32>, tensor<8xf32>) -> (tensor<8x1xf32>, tensor<1xf32>)
// CHECK: mpc.region row_reduce(%{{.*}}) {{.*}} : (tensor<8x4xf32>) -> tensor<8x1xf32>
// CHECK: mpc.region row_reduce(%{{.*}}) {{.*}} : (tensor<8xf32>) -> tensor<1xf32>
// CHECK: mpc.region row_reduce(%[[FIRST]]#0) {kernel = "second", mpc.phase = #mpc.phase<optimizer>}
func.func @sums(%dw: tensor<8x4xf32>, %db: tensor<8xf32>) -> (tensor<1x1xf32>, tensor<1xf32>) {
  %0 = mpc.region row_reduce (%dw) {kernel = "first", mpc.phase = #mpc.phase<optimizer>} : (tensor<8x4xf32>) -> tensor<8x1xf32> {
  ^bb0(%g: tensor<8x4xf32>):
    %s = mpc.reduce_sum %g {axes = array<i64: 1>, keepdims = true} : (tensor<8x4xf32>) -> tensor<8x1xf32>
    mpc.yield %s : tensor<8x1xf32>
  }
  %1 = mpc.region row_reduce (%0) {kernel = "second", mpc.phase = #mpc.phase<optimizer>} : (tensor<8x1xf32>) -> tensor<1x1xf32> {
  ^bb0(%g: tensor<8x1xf32>):
    %s = mpc.reduce_sum %g {axes = array<i64: 0>, keepdims = true} : (tensor<8x1xf32>) -> tensor<1x1xf32>
    mpc.yield %s : tensor<1x1xf32>
  }
  %2 = mpc.region row_reduce (%db) {kernel = "bias", mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>) -> tensor<1xf32> {
  ^bb0(%g: tensor<8xf32>):
    %s = mpc.reduce_sum %g {axes = array<i64: 0>, keepdims = true} : (tensor<8xf32>) -> tensor<1xf32>
    mpc.yield %s : tensor<1xf32>
  }
  return %1, %2 : tensor<1x1xf32>, tensor<1xf32>
}

// Fusion has joined small updates of one shape. One loop over all their tensors
// would need more registers than a thread has. Each update becomes a segment
// with a copy of the shared constant, and all segments compute alike.
//
// CHECK-LABEL: func.func @joined
// CHECK: mpc.region pointwise(%arg2, %arg0, %arg4, %arg3, %arg1) {kernel = "both", mpc.phase = #mpc.phase<optimizer>}
// CHECK: mpc.region pointwise(%{{.*}}, %{{.*}}, %[[LR:.*]]) {mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK-NEXT: ^bb0(%[[G:.*]]: tensor<8xf32>, %[[P:.*]]: tensor<8xf32>, %[[R:.*]]: tensor<f32>):
// CHECK-NEXT: %[[HALF:.*]] = mpc.constant
// CHECK-NEXT: %[[SCALED:.*]] = mpc.mul %[[G]], %[[HALF]]
// CHECK-NEXT: %[[NEW:.*]] = mpc.sgd %[[P]], %[[SCALED]], %[[R]]
// CHECK-NEXT: mpc.yield %[[NEW]]
// CHECK: mpc.region pointwise(%{{.*}}, %{{.*}}, %[[LR]]) {mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK-NEXT: ^bb0(%[[G:.*]]: tensor<8xf32>, %[[P:.*]]: tensor<8xf32>, %[[R:.*]]: tensor<f32>):
// CHECK-NEXT: %[[HALF:.*]] = mpc.constant
// CHECK-NEXT: %[[SCALED:.*]] = mpc.mul %[[G]], %[[HALF]]
// CHECK-NEXT: %[[NEW:.*]] = mpc.sgd %[[P]], %[[SCALED]], %[[R]]
// CHECK-NEXT: mpc.yield %[[NEW]]
//
// CPU-LABEL: func.func @joined
// CPU: mpc.region pointwise({{.*}} {kernel = "both"
// CPU: mpc.sgd
// CPU-NEXT: mpc.sgd
func.func @joined(%a: tensor<8xf32>, %b: tensor<8xf32>, %da: tensor<8xf32>, %db: tensor<8xf32>, %lr: tensor<f32>)
    -> (tensor<8xf32>, tensor<8xf32>) {
  %0:2 = mpc.region pointwise (%lr, %a, %da, %b, %db) {kernel = "both", mpc.phase = #mpc.phase<optimizer>}
      : (tensor<f32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%r: tensor<f32>, %p: tensor<8xf32>, %g: tensor<8xf32>, %q: tensor<8xf32>, %h: tensor<8xf32>):
    %half = mpc.constant dense<0.5> : tensor<8xf32>
    %gs = mpc.mul %g, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %hs = mpc.mul %h, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %n = mpc.sgd %p, %gs, %r {weight_decay = 0.0 : f64} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %m = mpc.sgd %q, %hs, %r {weight_decay = 0.0 : f64} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    mpc.yield %n, %m : tensor<8xf32>, tensor<8xf32>
  }
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
}

// Updates that share a gradient read it once. Updates of scalars must read a
// learning rate before one of them overwrites it. Both stay one loop. So does a
// kernel that returns an operand unchanged.
//
// CHECK-LABEL: func.func @stay
// CHECK: mpc.region pointwise({{.*}} {kernel = "gradient"}
// CHECK: mpc.sgd
// CHECK-NEXT: mpc.sgd
// CHECK: mpc.region pointwise({{.*}} {kernel = "numbers"}
// CHECK: mpc.sgd
// CHECK-NEXT: mpc.sgd
// CHECK: mpc.sgd
// CHECK-NEXT: mpc.sgd
func.func @stay(%a: tensor<8xf32>, %b: tensor<8xf32>, %g: tensor<8xf32>, %c: tensor<f32>, %d: tensor<f32>, %gc: tensor<f32>,
                %gd: tensor<f32>, %lr: tensor<f32>, %e: tensor<4xf32>, %ge: tensor<4xf32>, %f: tensor<4xf32>, %gf: tensor<4xf32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0:2 = mpc.region pointwise (%a, %b, %g, %lr) {kernel = "gradient"}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%p: tensor<8xf32>, %q: tensor<8xf32>, %h: tensor<8xf32>, %r: tensor<f32>):
    %n = mpc.sgd %p, %h, %r {weight_decay = 0.0 : f64} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %m = mpc.sgd %q, %h, %r {weight_decay = 0.0 : f64} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    mpc.yield %n, %m : tensor<8xf32>, tensor<8xf32>
  }
  %1:2 = mpc.region pointwise (%c, %gc, %d, %gd, %lr) {kernel = "numbers"}
      : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  ^bb0(%p: tensor<f32>, %h: tensor<f32>, %q: tensor<f32>, %k: tensor<f32>, %r: tensor<f32>):
    %n = mpc.sgd %p, %h, %r {weight_decay = 0.0 : f64} : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %m = mpc.sgd %q, %k, %r {weight_decay = 0.0 : f64} : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    mpc.yield %n, %m : tensor<f32>, tensor<f32>
  }
  %2:3 = mpc.region pointwise (%e, %ge, %f, %gf, %0#0) {kernel = "passed"}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%p: tensor<4xf32>, %h: tensor<4xf32>, %q: tensor<4xf32>, %k: tensor<4xf32>, %x: tensor<8xf32>):
    %r = mpc.constant dense<0.5> : tensor<f32>
    %n = mpc.sgd %p, %h, %r {weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %m = mpc.sgd %q, %k, %r {weight_decay = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    mpc.yield %n, %m, %h : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1, %1#0, %1#1, %2#0, %2#1, %2#2 : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
