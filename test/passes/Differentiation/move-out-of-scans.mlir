// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-move-out-of-scans),canonicalize)" | FileCheck %s

// Products of each part with the same matrix become one product before the loop.
// CHECK-LABEL: func.func @product_of_parts
// CHECK-SAME: (%[[X:.*]]: tensor<35x20x64xf32>, %[[W:.*]]: tensor<64x96xf32>)
// CHECK: %[[ROWS:.*]] = mpc.reshape %[[X]] : (tensor<35x20x64xf32>) -> tensor<700x64xf32>
// CHECK: %[[P:.*]] = mpc.matmul %[[ROWS]], %[[W]] : (tensor<700x64xf32>, tensor<64x96xf32>) -> tensor<700x96xf32>
// CHECK: %[[S:.*]] = mpc.reshape %[[P]] : (tensor<700x96xf32>) -> tensor<35x20x96xf32>
// CHECK: mpc.scan 35 scanned(%[[S]] : tensor<35x20x96xf32>) ->
// CHECK-NOT: mpc.matmul
// CHECK: reversed_inputs = array<i1: true>
func.func @product_of_parts(%x: tensor<35x20x64xf32>, %w: tensor<64x96xf32>) -> tensor<35x20x96xf32> {
  %all = mpc.scan 35 scanned(%x : tensor<35x20x64xf32>) invariant(%w : tensor<64x96xf32>)
      -> (tensor<35x20x96xf32>) {
  ^bb0(%x_t: tensor<20x64xf32>, %u: tensor<64x96xf32>):
    %0 = mpc.matmul %x_t, %u : (tensor<20x64xf32>, tensor<64x96xf32>) -> tensor<20x96xf32>
    %1 = mpc.tanh %0 : (tensor<20x96xf32>) -> tensor<20x96xf32>
    mpc.yield %1 : tensor<20x96xf32>
  } {reversed_inputs = array<i1: true>, reversed_outputs = array<i1: false>}
  return %all : tensor<35x20x96xf32>
}

// Loop-invariant values are computed once. Carried values stay.
// CHECK-LABEL: func.func @invariant
// CHECK-SAME: (%[[H:.*]]: tensor<2x4xf32>, %[[W:.*]]: tensor<4x4xf32>)
// CHECK: %[[T:.*]] = mpc.tanh %[[W]]
// CHECK: mpc.scan 5 carried(%[[H]] : tensor<2x4xf32>) invariant(%[[T]] : tensor<4x4xf32>)
// CHECK: mpc.matmul
func.func @invariant(%h0: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %last = mpc.scan 5 carried(%h0 : tensor<2x4xf32>) invariant(%w : tensor<4x4xf32>) -> (tensor<2x4xf32>) {
  ^bb0(%h: tensor<2x4xf32>, %u: tensor<4x4xf32>):
    %0 = mpc.tanh %u : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = mpc.matmul %h, %0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    mpc.yield %1 : tensor<2x4xf32>
  } {reversed_inputs = array<i1>, reversed_outputs = array<i1>}
  return %last : tensor<2x4xf32>
}

// A product that is only stacked moves behind the loop, for all rows at once.
// CHECK-LABEL: func.func @product_of_stack
// CHECK-SAME: (%[[H:.*]]: tensor<2x4xf32>, %[[W:.*]]: tensor<8x4xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = mpc.scan 5 carried(%[[H]] : tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<5x2x4xf32>)
// CHECK: %[[ROWS:.*]] = mpc.reshape %[[STACK:.*]]#1 : (tensor<5x2x4xf32>) -> tensor<10x4xf32>
// CHECK: mpc.gemm %[[ROWS]], %[[W]], %[[B]] {transB = true} : (tensor<10x4xf32>, tensor<8x4xf32>, tensor<8xf32>) -> tensor<10x8xf32>
func.func @product_of_stack(%h0: tensor<2x4xf32>, %w: tensor<8x4xf32>, %b: tensor<8xf32>) -> (tensor<2x4xf32>, tensor<5x2x8xf32>) {
  %last, %all = mpc.scan 5 carried(%h0 : tensor<2x4xf32>) invariant(%w, %b : tensor<8x4xf32>, tensor<8xf32>)
      -> (tensor<2x4xf32>, tensor<5x2x8xf32>) {
  ^bb0(%h: tensor<2x4xf32>, %u: tensor<8x4xf32>, %c: tensor<8xf32>):
    %0 = mpc.tanh %h : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = mpc.gemm %0, %u, %c {transB = true} : (tensor<2x4xf32>, tensor<8x4xf32>, tensor<8xf32>) -> tensor<2x8xf32>
    mpc.yield %0, %1 : tensor<2x4xf32>, tensor<2x8xf32>
  } {reversed_inputs = array<i1>, reversed_outputs = array<i1: false>}
  return %last, %all : tensor<2x4xf32>, tensor<5x2x8xf32>
}

// Gradients of a weight and a bias become sums over all rows of all iterations.
// CHECK-LABEL: func.func @weight_gradient
// CHECK-SAME: (%[[X:.*]]: tensor<5x2x4xf32>, %[[D:.*]]: tensor<2x8xf32>)
// CHECK: mpc.scan 5 carried(%[[D]] : tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<5x2x8xf32>)
// CHECK: reversed_inputs = array<i1>, reversed_outputs = array<i1: true>
// CHECK: %[[A:.*]] = mpc.reshape %[[X]] : (tensor<5x2x4xf32>) -> tensor<10x4xf32>
// CHECK: %[[B:.*]] = mpc.reshape %[[G:.*]]#1 : (tensor<5x2x8xf32>) -> tensor<10x8xf32>
// CHECK: mpc.matmul %[[A]], %[[B]] {transA = true} : (tensor<10x4xf32>, tensor<10x8xf32>) -> tensor<4x8xf32>
// CHECK: mpc.sum_to_size %[[G]]#1 : (tensor<5x2x8xf32>) -> tensor<8xf32>
func.func @weight_gradient(%x: tensor<5x2x4xf32>, %d: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<4x8xf32>, tensor<8xf32>) {
  %zeros = mpc.constant dense<0.0> : tensor<4x8xf32>
  %zero = mpc.constant dense<0.0> : tensor<8xf32>
  %dh, %dw, %db = mpc.scan 5 carried(%d, %zeros, %zero : tensor<2x8xf32>, tensor<4x8xf32>, tensor<8xf32>)
      scanned(%x : tensor<5x2x4xf32>) -> (tensor<2x8xf32>, tensor<4x8xf32>, tensor<8xf32>) {
  ^bb0(%g: tensor<2x8xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>, %x_t: tensor<2x4xf32>):
    %0 = mpc.tanh %g : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %1 = mpc.matmul %x_t, %0 {transA = true} : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
    %2 = mpc.add %w, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = mpc.sum_to_size %0 : (tensor<2x8xf32>) -> tensor<8xf32>
    %4 = mpc.add %b, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    mpc.yield %0, %2, %4 : tensor<2x8xf32>, tensor<4x8xf32>, tensor<8xf32>
  } {reversed_inputs = array<i1: true>, reversed_outputs = array<i1>}
  return %dh, %dw, %db : tensor<2x8xf32>, tensor<4x8xf32>, tensor<8xf32>
}

// Factors that traverse their stacks in opposite directions cannot become one
// product of all rows.
// CHECK-LABEL: func.func @opposite
// CHECK: mpc.scan
// CHECK: mpc.matmul
// CHECK: mpc.yield
func.func @opposite(%x: tensor<5x2x4xf32>, %y: tensor<5x2x8xf32>) -> tensor<4x8xf32> {
  %zeros = mpc.constant dense<0.0> : tensor<4x8xf32>
  %dw = mpc.scan 5 carried(%zeros : tensor<4x8xf32>) scanned(%x, %y : tensor<5x2x4xf32>, tensor<5x2x8xf32>) -> (tensor<4x8xf32>) {
  ^bb0(%w: tensor<4x8xf32>, %x_t: tensor<2x4xf32>, %y_t: tensor<2x8xf32>):
    %0 = mpc.matmul %x_t, %y_t {transA = true} : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
    %1 = mpc.add %w, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    mpc.yield %1 : tensor<4x8xf32>
  } {reversed_inputs = array<i1: true, false>, reversed_outputs = array<i1>}
  return %dw : tensor<4x8xf32>
}
