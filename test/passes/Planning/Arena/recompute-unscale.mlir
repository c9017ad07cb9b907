// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-recompute-unscale | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --plan-recompute-unscale | FileCheck %s --check-prefix=CPU

// Both users unscale the gradient when they load it.
//
// CHECK-LABEL: func.func @readers
// CHECK-NOT: kernel = "dw"
// CHECK: mpc.region pointwise(%arg0, %arg3, %arg1, %arg2) {kernel = "w"}
// CHECK-NEXT: ^bb0(%[[W:.*]]: tensor<8x4xf32>, %[[LR:.*]]: tensor<f32>, %[[DW:.*]]: tensor<8x4xf32>, %[[S:.*]]: tensor<f32>)
// CHECK-NEXT: %[[U:.*]] = amp.unscale %[[DW]], %[[S]]
// CHECK-NEXT: mpc.sgd %[[W]], %[[U]], %[[LR]]
// CHECK: mpc.region row_reduce(%arg1, %arg2) {kernel = "sum"}
// CHECK: amp.unscale
//
// CPU-LABEL: func.func @readers
// CPU: kernel = "dw"
func.func @readers(%w: tensor<8x4xf32>, %dw: tensor<8x4xf32>, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8x4xf32>, tensor<1x1xf32>) {
  %u = mpc.region pointwise (%dw, %scale) {kernel = "dw"} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> {
  ^bb0(%0: tensor<8x4xf32>, %1: tensor<f32>):
    %2 = amp.unscale %0, %1 : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    mpc.yield %2 : tensor<8x4xf32>
  }
  %new = mpc.region pointwise (%w, %u, %lr) {kernel = "w"} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> {
  ^bb0(%0: tensor<8x4xf32>, %1: tensor<8x4xf32>, %2: tensor<f32>):
    %3 = mpc.sgd %0, %1, %2 {weight_decay = 0.0 : f64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    mpc.yield %3 : tensor<8x4xf32>
  }
  %sum = mpc.region row_reduce (%u) {kernel = "sum"} : (tensor<8x4xf32>) -> tensor<1x1xf32> {
  ^bb0(%0: tensor<8x4xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0, 1>, keepdims = true} : (tensor<8x4xf32>) -> tensor<1x1xf32>
    mpc.yield %1 : tensor<1x1xf32>
  }
  return %new, %sum : tensor<8x4xf32>, tensor<1x1xf32>
}

// A gradient that the function returns must be stored unscaled.
//
// CHECK-LABEL: func.func @output
// CHECK: kernel = "dw"
func.func @output(%dw: tensor<8x4xf32>, %scale: tensor<f32>) -> tensor<8x4xf32> {
  %u = mpc.region pointwise (%dw, %scale) {kernel = "dw"} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> {
  ^bb0(%0: tensor<8x4xf32>, %1: tensor<f32>):
    %2 = amp.unscale %0, %1 : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    mpc.yield %2 : tensor<8x4xf32>
  }
  return %u : tensor<8x4xf32>
}

// A value that is unscaled twice, unlike any gradient, moves one step at a time.
//
// CHECK-LABEL: func.func @twice
// CHECK: mpc.region pointwise(%arg0, %arg1) {kernel = "inner"}
// CHECK-NOT: kernel = "outer"
// CHECK: mpc.region row_reduce({{.*}}) {kernel = "sum"}
// CHECK: amp.unscale
func.func @twice(%dw: tensor<8x4xf32>, %scale: tensor<f32>) -> tensor<1x1xf32> {
  %u = mpc.region pointwise (%dw, %scale) {kernel = "inner"} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> {
  ^bb0(%0: tensor<8x4xf32>, %1: tensor<f32>):
    %2 = amp.unscale %0, %1 : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    mpc.yield %2 : tensor<8x4xf32>
  }
  %v = mpc.region pointwise (%u, %scale) {kernel = "outer"} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> {
  ^bb0(%0: tensor<8x4xf32>, %1: tensor<f32>):
    %2 = amp.unscale %0, %1 : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    mpc.yield %2 : tensor<8x4xf32>
  }
  %sum = mpc.region row_reduce (%v) {kernel = "sum"} : (tensor<8x4xf32>) -> tensor<1x1xf32> {
  ^bb0(%0: tensor<8x4xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0, 1>, keepdims = true} : (tensor<8x4xf32>) -> tensor<1x1xf32>
    mpc.yield %1 : tensor<1x1xf32>
  }
  return %sum : tensor<1x1xf32>
}
