// RUN: mpc-opt %s -canonicalize | FileCheck %s

// Drops operands that the body does not read, unused results, and carried
// values that only carry themselves.
// CHECK-LABEL: func @drops_of_scans
// CHECK: mpc.scan 8 scanned(%arg1 : tensor<8x4xf32>) -> (tensor<8x4xf32>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<4xf32>):
// CHECK-NEXT: %[[C:.*]] = mpc.constant dense<2.0
// CHECK-NEXT: %[[P:.*]] = mpc.mul %[[X]], %[[C]]
// CHECK-NEXT: mpc.yield %[[P]] : tensor<4xf32>
// CHECK-NEXT: reversed_inputs = array<i1: true>, reversed_outputs = array<i1: false>
func.func @drops_of_scans(%h0: tensor<4xf32>, %x: tensor<8x4xf32>, %y: tensor<8x2xf32>, %w: tensor<9xf32>) -> tensor<8x4xf32> {
  %two = mpc.constant dense<2.0> : tensor<4xf32>
  %last, %none, %all = mpc.scan 8 carried(%h0 : tensor<4xf32>)
      scanned(%y, %x : tensor<8x2xf32>, tensor<8x4xf32>)
      invariant(%w, %two : tensor<9xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  ^bb0(%h: tensor<4xf32>, %y_t: tensor<2xf32>, %x_t: tensor<4xf32>, %v: tensor<9xf32>, %c: tensor<4xf32>):
    %0 = mpc.tanh %h : (tensor<4xf32>) -> tensor<4xf32>
    %1 = mpc.mul %x_t, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %0, %0, %1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  } {reversed_inputs = array<i1: false, true>, reversed_outputs = array<i1: true, false>}
  return %all : tensor<8x4xf32>
}

// An operand that is given twice becomes one argument.
// CHECK-LABEL: func @joins_invariants
// CHECK: mpc.scan 3 carried(%arg0 : tensor<4xf32>) invariant(%arg1 : tensor<4xf32>)
func.func @joins_invariants(%h0: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %last = mpc.scan 3 carried(%h0 : tensor<4xf32>) invariant(%w, %w : tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%h: tensor<4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>):
    %0 = mpc.mul %h, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = mpc.add %0, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %1 : tensor<4xf32>
  } {reversed_inputs = array<i1>, reversed_outputs = array<i1>}
  return %last : tensor<4xf32>
}

// A constant condition keeps only the ops of one branch.
// CHECK-LABEL: func @known_branches
// CHECK-NEXT: %[[E:.*]] = mpc.exp %arg0
// CHECK-NEXT: return %[[E]], %arg0
func.func @known_branches(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %true = mpc.constant dense<true> : tensor<i1>
  %false = mpc.constant dense<false> : tensor<i1>
  %0 = mpc.if %true captured(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %1 = mpc.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %1 : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  }
  %2 = mpc.if %false captured(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %3 = mpc.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %3 : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  }
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}

// Drops operands that no branch reads or that are given twice, constants, and
// unused results.
// CHECK-LABEL: func @drops_of_branches
// CHECK: mpc.if %arg0 captured(%arg1 : tensor<4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<4xf32>):
// CHECK-NEXT: %[[C:.*]] = mpc.constant dense<2.0
// CHECK-NEXT: %[[M:.*]] = mpc.mul %[[A]], %[[C]]
// CHECK-NEXT: mpc.yield %[[M]] : tensor<4xf32>
// CHECK-NEXT: } else {
// CHECK-NEXT: ^bb0(%[[B:.*]]: tensor<4xf32>):
// CHECK-NEXT: mpc.yield %[[B]] : tensor<4xf32>
func.func @drops_of_branches(%c: tensor<i1>, %x: tensor<4xf32>, %w: tensor<9xf32>) -> tensor<4xf32> {
  %two = mpc.constant dense<2.0> : tensor<4xf32>
  %0:2 = mpc.if %c captured(%w, %x, %two, %x : tensor<9xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      -> (tensor<9xf32>, tensor<4xf32>) {
  ^bb0(%v: tensor<9xf32>, %a: tensor<4xf32>, %t: tensor<4xf32>, %b: tensor<4xf32>):
    %1 = mpc.mul %b, %t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %v, %1 : tensor<9xf32>, tensor<4xf32>
  } else {
  ^bb0(%v: tensor<9xf32>, %a: tensor<4xf32>, %t: tensor<4xf32>, %b: tensor<4xf32>):
    mpc.yield %v, %a : tensor<9xf32>, tensor<4xf32>
  }
  return %0#1 : tensor<4xf32>
}
