// RUN: mpc-opt %s --mpc-outline-bodies | FileCheck %s

// CHECK-LABEL: func.func @forward
// CHECK: %[[R:.*]]:2 = mpc.scan_call @forward_scan 8 carried(%arg0 : tensor<4xf32>) scanned(%arg1 : tensor<8x4xf32>) invariant(%arg2 : tensor<4xf32>) {mpc.phase = #mpc.phase<backward>, reversed_inputs = array<i1: true>, reversed_outputs = array<i1: false>} -> (tensor<4xf32>, tensor<8x4xf32>)
// CHECK: return %[[R]]#0, %[[R]]#1

// CHECK: func.func private @forward_scan(%[[H:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
// CHECK: %[[M:.*]] = mpc.mul %[[H]], %[[W]]
// CHECK: %[[A:.*]] = mpc.add %[[M]], %[[X]]
// CHECK: return %[[A]], %[[M]]
func.func @forward(%h0: tensor<4xf32>, %x: tensor<8x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  %last, %all = mpc.scan 8 carried(%h0 : tensor<4xf32>) scanned(%x : tensor<8x4xf32>)
      invariant(%w : tensor<4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  ^bb0(%h: tensor<4xf32>, %x_t: tensor<4xf32>, %u: tensor<4xf32>):
    %0 = mpc.mul %h, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = mpc.add %0, %x_t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %1, %0 : tensor<4xf32>, tensor<4xf32>
  } {mpc.phase = #mpc.phase<backward>, reversed_inputs = array<i1: true>, reversed_outputs = array<i1: false>}
  return %last, %all : tensor<4xf32>, tensor<8x4xf32>
}

// The outer loop's body calls the function of the inner loop's body.
// CHECK-LABEL: func.func @nested
// CHECK: mpc.scan_call @nested_scan_0 2 scanned(
// CHECK: func.func private @nested_scan_0(
// CHECK: mpc.scan_call @nested_scan 3 scanned(
// CHECK: func.func private @nested_scan(
// CHECK: mpc.exp
func.func @nested(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = mpc.scan 2 scanned(%x : tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>) {
  ^bb0(%rows: tensor<3x4xf32>):
    %1 = mpc.scan 3 scanned(%rows : tensor<3x4xf32>) -> (tensor<3x4xf32>) {
    ^bb0(%row: tensor<4xf32>):
      %2 = mpc.exp %row : (tensor<4xf32>) -> tensor<4xf32>
      mpc.yield %2 : tensor<4xf32>
    } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>}
    mpc.yield %1 : tensor<3x4xf32>
  } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>}
  return %0 : tensor<2x3x4xf32>
}

// Each branch becomes a function. A branch within a loop is called by the loop's body.
// CHECK-LABEL: func.func @branches
// CHECK: mpc.scan_call @branches_scan 2 scanned(
// CHECK: func.func private @branches_scan(
// CHECK: %[[Y:.*]] = mpc.if_call %{{.*}} @branches_then else @branches_else(%{{.*}}) {mpc.phase = #mpc.phase<loss>} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: return %[[Y]]
// CHECK: func.func private @branches_then(
// CHECK: mpc.exp
// CHECK: func.func private @branches_else(%[[A:.*]]: tensor<4xf32>)
// CHECK: return %[[A]]
func.func @branches(%c: tensor<2xi1>, %x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = mpc.scan 2 scanned(%c, %x : tensor<2xi1>, tensor<2x4xf32>) -> (tensor<2x4xf32>) {
  ^bb0(%condition: tensor<i1>, %row: tensor<4xf32>):
    %1 = mpc.if %condition captured(%row : tensor<4xf32>) -> (tensor<4xf32>) {
    ^bb0(%a: tensor<4xf32>):
      %2 = mpc.exp %a : (tensor<4xf32>) -> tensor<4xf32>
      mpc.yield %2 : tensor<4xf32>
    } else {
    ^bb0(%a: tensor<4xf32>):
      mpc.yield %a : tensor<4xf32>
    } {mpc.phase = #mpc.phase<loss>}
    mpc.yield %1 : tensor<4xf32>
  } {reversed_inputs = array<i1: false, false>, reversed_outputs = array<i1: false>}
  return %0 : tensor<2x4xf32>
}
