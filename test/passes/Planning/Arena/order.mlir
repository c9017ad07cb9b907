// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(plan-order))" | FileCheck %s

mpc.variable @w : tensor<4xf32> role parameter

// Readers of the old weight run before the update, which can then be in place.
// CHECK-LABEL: func.func @reader_first
func.func @reader_first(%w: tensor<4xf32> {mpc.state = @w}, %g: tensor<4xf32>) -> (tensor<4xf32> {mpc.updates = @w}, tensor<4xf32>) {
  // CHECK: kernel = "late_reader"
  // CHECK: kernel = "update"
  %0 = mpc.region pointwise (%w, %g) {kernel = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %2 = mpc.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %2 : tensor<4xf32>
  }
  %v = mpc.reshape %w : (tensor<4xf32>) -> tensor<4x1xf32>
  %1 = mpc.region pointwise (%v) {kernel = "late_reader"} : (tensor<4x1xf32>) -> tensor<4x1xf32> {
  ^bb0(%a: tensor<4x1xf32>):
    %2 = mpc.relu %a : (tensor<4x1xf32>) -> tensor<4x1xf32>
    mpc.yield %2 : tensor<4x1xf32>
  }
  %y = mpc.reshape %1 : (tensor<4x1xf32>) -> tensor<4xf32>
  return %0, %y : tensor<4xf32>, tensor<4xf32>
}

// A reader that also needs the new weight cannot run first.
// CHECK-LABEL: func.func @needs_both
func.func @needs_both(%w: tensor<4xf32> {mpc.state = @w}) -> (tensor<4xf32> {mpc.updates = @w}, tensor<4xf32>) {
  // CHECK: kernel = "update"
  // CHECK: kernel = "difference"
  %0 = mpc.region pointwise (%w) {kernel = "update"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %2 = mpc.neg %a : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %2 : tensor<4xf32>
  }
  %1 = mpc.region pointwise (%w, %0) {kernel = "difference"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %2 = mpc.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %2 : tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// An update runs as soon as its gradient exists and all readers of the old
// weight have run, before the next weight's gradient.
mpc.variable @m : tensor<4xf32> role optimizer_state
// CHECK-LABEL: func.func @early_update
func.func @early_update(%w: tensor<4xf32> {mpc.state = @w}, %m: tensor<4xf32> {mpc.state = @m}, %g: tensor<4xf32>) -> (tensor<4xf32> {mpc.updates = @w}, tensor<4xf32> {mpc.updates = @m}, tensor<4xf32>) {
  // CHECK: kernel = "gradient"
  // CHECK: kernel = "reader"
  // CHECK: kernel = "update"
  // CHECK: kernel = "next_gradient"
  // CHECK: kernel = "next_update"
  %0 = mpc.region pointwise (%g) {kernel = "gradient"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %9 = mpc.neg %a : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %9 : tensor<4xf32>
  }
  %1 = mpc.region pointwise (%w, %g) {kernel = "reader"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %9 = mpc.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %9 : tensor<4xf32>
  }
  %2 = mpc.region pointwise (%1) {kernel = "next_gradient"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %9 = mpc.tanh %a : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %9 : tensor<4xf32>
  }
  %3 = mpc.region pointwise (%w, %0) {kernel = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %9 = mpc.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %9 : tensor<4xf32>
  }
  %4 = mpc.region pointwise (%m, %2) {kernel = "next_update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %9 = mpc.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %9 : tensor<4xf32>
  }
  return %3, %4, %1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A reduction over ranks begins as soon as its gradient exists. The update
// waits until the backward pass has ended.
// CHECK-LABEL: func.func @reduces
func.func @reduces(%w: tensor<4xf32> {mpc.state = @w}, %g: tensor<4xf32>) -> (tensor<4xf32> {mpc.updates = @w}, tensor<4xf32>) {
  // CHECK: kernel = "gradient"
  // CHECK: mpc.all_reduce
  // CHECK: kernel = "backward"
  // CHECK: kernel = "update"
  %0 = mpc.region pointwise (%g) {kernel = "gradient"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %9 = mpc.neg %a : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %9 : tensor<4xf32>
  }
  %1 = mpc.region pointwise (%g) {kernel = "backward"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %9 = mpc.relu %a : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %9 : tensor<4xf32>
  }
  %2 = mpc.all_reduce mean %0 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = mpc.region pointwise (%w, %2) {kernel = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %9 = mpc.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %9 : tensor<4xf32>
  }
  return %3, %1 : tensor<4xf32>, tensor<4xf32>
}
