// RUN: mpc-opt %s -mpc-expand-gradients -canonicalize | FileCheck %s

// The backward loop reads the saved carried values of the forward loop. It
// starts from the gradient of the last state and sums the weight's gradients.
// CHECK-LABEL: func @recurrence
// CHECK-SAME: %[[H0:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<8x4xf32>, %[[W:.*]]: tensor<4xf32>
// CHECK: %[[F:.*]]:2 = mpc.scan 8 carried(%[[H0]] : tensor<4xf32>) scanned(%[[X]] : tensor<8x4xf32>) invariant(%[[W]] : tensor<4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>)
// CHECK-NEXT: ^bb0(%[[H:.*]]: tensor<4xf32>, %[[X_T:.*]]: tensor<4xf32>, %[[U:.*]]: tensor<4xf32>):
// CHECK: mpc.yield %{{.*}}, %[[H]]
// CHECK: reversed_outputs = array<i1: false>
// CHECK: %[[B:.*]]:3 = mpc.scan 8 carried(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>) scanned(%[[F]]#1 : tensor<8x4xf32>) invariant(%[[W]] : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<8x4xf32>)
// CHECK-NEXT: ^bb0(%[[DH:.*]]: tensor<4xf32>, %[[SUM:.*]]: tensor<4xf32>, %[[KEPT:.*]]: tensor<4xf32>, %[[V:.*]]: tensor<4xf32>):
// CHECK-DAG: %[[DW:.*]] = mpc.mul %[[DH]], %[[KEPT]] {mpc.phase = #mpc.phase<backward>}
// CHECK-DAG: %[[NEXT:.*]] = mpc.mul %[[DH]], %[[V]] {mpc.phase = #mpc.phase<backward>}
// CHECK: %[[TOTAL:.*]] = mpc.add %[[SUM]], %[[DW]]
// CHECK: mpc.yield %[[NEXT]], %[[TOTAL]], %[[DH]]
// CHECK: {mpc.phase = #mpc.phase<backward>, reversed_inputs = array<i1: true>, reversed_outputs = array<i1: true>}
// CHECK: return %[[B]]#0, %[[B]]#2, %[[B]]#1
func.func @recurrence(%h0: tensor<4xf32>, %x: tensor<8x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>, tensor<4xf32>) {
  %last = mpc.scan 8 carried(%h0 : tensor<4xf32>) scanned(%x : tensor<8x4xf32>) invariant(%w : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%h: tensor<4xf32>, %x_t: tensor<4xf32>, %u: tensor<4xf32>):
    %0 = mpc.mul %h, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = mpc.add %0, %x_t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %1 : tensor<4xf32>
  } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1>}
  %loss = mpc.reduce_sum %last {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %g:3 = mpc.gradient %loss wrt %h0, %x, %w : tensor<f32>, (tensor<4xf32>, tensor<8x4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>, tensor<4xf32>)
  return %g#0, %g#1, %g#2 : tensor<4xf32>, tensor<8x4xf32>, tensor<4xf32>
}

// Values that depend only on invariant operands are not saved per iteration.
// CHECK-LABEL: func @recomputed
// CHECK: mpc.scan 8 carried({{.*}}) invariant({{.*}}) -> (tensor<4xf32>) {
// CHECK: mpc.scan 8 carried({{.*}}) invariant({{.*}}) -> (tensor<4xf32>) {
// CHECK: %[[E:.*]] = mpc.exp
// CHECK: mpc.mul %{{.*}}, %[[E]] {mpc.phase = #mpc.phase<backward>}
func.func @recomputed(%h0: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %last = mpc.scan 8 carried(%h0 : tensor<4xf32>) invariant(%w : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%h: tensor<4xf32>, %u: tensor<4xf32>):
    %0 = mpc.exp %u : (tensor<4xf32>) -> tensor<4xf32>
    %1 = mpc.mul %h, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %1 : tensor<4xf32>
  } {reversed_inputs = array<i1>, reversed_outputs = array<i1>}
  %loss = mpc.reduce_sum %last {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %g = mpc.gradient %loss wrt %h0 : tensor<f32>, (tensor<4xf32>) -> (tensor<4xf32>)
  return %last, %g : tensor<4xf32>, tensor<4xf32>
}
