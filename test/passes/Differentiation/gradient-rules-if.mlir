// RUN: mpc-opt %s -mpc-expand-gradients -canonicalize | FileCheck %s

// Each backward branch recomputes the forward values that its gradient reads.
// Operands that the branch does not read get zeros as gradient.
// CHECK-LABEL: func @branches
// CHECK-SAME: %[[C:.*]]: tensor<i1>, %[[X:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<4xf32>
// CHECK: %[[DY:.*]] = mpc.expand
// CHECK: %[[G:.*]]:2 = mpc.if %[[C]] captured(%[[X]], %[[W]], %[[DY]] : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<4xf32>, %[[U:.*]]: tensor<4xf32>, %[[D:.*]]: tensor<4xf32>):
// CHECK-NEXT: %[[M:.*]] = mpc.mul %[[A]], %[[U]] {mpc.phase = #mpc.phase<backward>}
// CHECK-NEXT: %[[E:.*]] = mpc.exp %[[M]] {mpc.phase = #mpc.phase<backward>}
// CHECK-NEXT: %[[DM:.*]] = mpc.mul %[[D]], %[[E]] {mpc.phase = #mpc.phase<backward>}
// CHECK-DAG: %[[DA:.*]] = mpc.mul %[[DM]], %[[U]]
// CHECK-DAG: %[[DU:.*]] = mpc.mul %[[DM]], %[[A]]
// CHECK: mpc.yield %[[DA]], %[[DU]]
// CHECK: } else {
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>, %[[D2:.*]]: tensor<4xf32>):
// CHECK-NEXT: %[[Z:.*]] = mpc.constant {mpc.phase = #mpc.phase<backward>} dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT: mpc.yield %[[D2]], %[[Z]]
// CHECK: } {mpc.phase = #mpc.phase<backward>}
// CHECK: return %[[G]]#0, %[[G]]#1
func.func @branches(%c: tensor<i1>, %x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = mpc.if %c captured(%x, %w : tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>, %u: tensor<4xf32>):
    %0 = mpc.mul %a, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = mpc.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %1 : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>, %u: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  }
  %loss = mpc.reduce_sum %y {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %g:2 = mpc.gradient %loss wrt %x, %w : tensor<f32>, (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %g#0, %g#1 : tensor<4xf32>, tensor<4xf32>
}

// No gradient flows through results that do not affect the loss.
// CHECK-LABEL: func @unused
// CHECK-NOT: mpc.if
func.func @unused(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = mpc.if %c captured(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %0 = mpc.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %0 : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  }
  %loss = mpc.reduce_sum %x {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %g = mpc.gradient %loss wrt %x : tensor<f32>, (tensor<4xf32>) -> (tensor<4xf32>)
  return %g : tensor<4xf32>
}
