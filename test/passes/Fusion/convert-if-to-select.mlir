// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --mpc-convert-if-to-select | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --mpc-convert-if-to-select | FileCheck %s --check-prefix=CPU

// CHECK-LABEL: func.func @choice(
// CHECK-SAME: %[[C:.*]]: tensor<i1>, %[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[S:.*]] = mpc.sqrt %[[X]]
// CHECK-NEXT: %[[Y:.*]] = mpc.select %[[C]], %[[S]], %[[X]] {mpc.phase = #mpc.phase<loss>}
// CHECK-NEXT: return %[[Y]]
//
// CPU-LABEL: func.func @choice(
// CPU: mpc.if
func.func @choice(%condition: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = mpc.if %condition captured(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %0 = mpc.sqrt %a : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %0 : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  } {mpc.phase = #mpc.phase<loss>}
  return %y : tensor<4xf32>
}

// A branch contains a condition, and so does a loop's body.
//
// CHECK-LABEL: func.func @nested(
// CHECK-NOT: mpc.if
// CHECK: mpc.select
// CHECK: mpc.select
// CHECK: mpc.scan
// CHECK: mpc.select
// CHECK-NOT: mpc.if
func.func @nested(%c: tensor<i1>, %d: tensor<i1>, %x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = mpc.if %c captured(%d, %x : tensor<i1>, tensor<3x4xf32>) -> (tensor<3x4xf32>) {
  ^bb0(%e: tensor<i1>, %a: tensor<3x4xf32>):
    %1 = mpc.if %e captured(%a : tensor<3x4xf32>) -> (tensor<3x4xf32>) {
    ^bb0(%b: tensor<3x4xf32>):
      %2 = mpc.exp %b : (tensor<3x4xf32>) -> tensor<3x4xf32>
      mpc.yield %2 : tensor<3x4xf32>
    } else {
    ^bb0(%b: tensor<3x4xf32>):
      mpc.yield %b : tensor<3x4xf32>
    }
    mpc.yield %1 : tensor<3x4xf32>
  } else {
  ^bb0(%e: tensor<i1>, %a: tensor<3x4xf32>):
    mpc.yield %a : tensor<3x4xf32>
  }
  %3 = mpc.scan 3 scanned(%0 : tensor<3x4xf32>) invariant(%d : tensor<i1>) -> (tensor<3x4xf32>) {
  ^bb0(%row: tensor<4xf32>, %e: tensor<i1>):
    %4 = mpc.if %e captured(%row : tensor<4xf32>) -> (tensor<4xf32>) {
    ^bb0(%b: tensor<4xf32>):
      %5 = mpc.exp %b : (tensor<4xf32>) -> tensor<4xf32>
      mpc.yield %5 : tensor<4xf32>
    } else {
    ^bb0(%b: tensor<4xf32>):
      mpc.yield %b : tensor<4xf32>
    }
    mpc.yield %4 : tensor<4xf32>
  } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>}
  return %3 : tensor<3x4xf32>
}

// Indices that an untaken branch checks are replaced by 0.
//
// CHECK-LABEL: func.func @checked(
// CHECK-SAME: %[[C:.*]]: tensor<i1>, %[[IDS:.*]]: tensor<4xi64>,
// CHECK: %[[ZERO:.*]] = mpc.constant dense<0> : tensor<4xi64>
// CHECK: %[[THEN:.*]] = mpc.select %[[C]], %[[IDS]], %[[ZERO]]
// CHECK: mpc.check_indices %[[THEN]]
// CHECK: %[[ELSE:.*]] = mpc.select %[[C]], %{{.*}}, %[[IDS]]
// CHECK: mpc.check_indices %[[ELSE]]
func.func @checked(%c: tensor<i1>, %ids: tensor<4xi64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = mpc.if %c captured(%ids, %x : tensor<4xi64>, tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%i: tensor<4xi64>, %a: tensor<4xf32>):
    mpc.check_indices %i [{begin = array<i64: 0>, end = array<i64: 4>, size = 9 : i64}] : tensor<4xi64>
    mpc.yield %a : tensor<4xf32>
  } else {
  ^bb0(%i: tensor<4xi64>, %a: tensor<4xf32>):
    mpc.check_indices %i [{begin = array<i64: 0>, end = array<i64: 4>, size = 7 : i64}] : tensor<4xi64>
    mpc.yield %a : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
