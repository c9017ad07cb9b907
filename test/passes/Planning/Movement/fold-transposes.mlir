// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=x86-64-v3},func.func(plan-fold-movement))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(plan-fold-movement))" | FileCheck %s

// Generated kernels read or store rows through transposes.

// The kernel that adds a bias to queries stores them head by head. It computes
// in the shape of the view that splits columns into heads.
// CHECK-LABEL: func.func @heads
// CHECK-DAG: %[[X:.+]] = mpc.reshape %arg0 : (tensor<2x8x32xf32>) -> tensor<2x8x2x16xf32>
// CHECK-DAG: %[[B:.+]] = mpc.reshape %arg1 : (tensor<32xf32>) -> tensor<2x16xf32>
// CHECK: %[[Y:.+]] = mpc.region pointwise(%[[X]], %[[B]]) {{.*}} -> tensor<2x2x8x16xf32>
// CHECK: %[[C:.+]] = mpc.constant dense<2.000000e+00> : tensor<2x8x2x16xf32>
// CHECK: mpc.add {{.*}} : (tensor<2x8x2x16xf32>, tensor<2x16xf32>) -> tensor<2x8x2x16xf32>
// CHECK: mpc.transpose {{.*}}perm = array<i64: 0, 2, 1, 3>
// CHECK-NOT: movement
// CHECK: return %[[Y]]
func.func @heads(%x: tensor<2x8x32xf32>, %b: tensor<32xf32>) -> tensor<2x2x8x16xf32> {
  %0 = mpc.region pointwise (%x, %b) {kernel = "q"} : (tensor<2x8x32xf32>, tensor<32xf32>) -> tensor<2x8x32xf32> {
  ^bb0(%p: tensor<2x8x32xf32>, %q: tensor<32xf32>):
    %c = mpc.constant dense<2.0> : tensor<2x8x32xf32>
    %y = mpc.add %p, %q : (tensor<2x8x32xf32>, tensor<32xf32>) -> tensor<2x8x32xf32>
    %z = mpc.mul %y, %c : (tensor<2x8x32xf32>, tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
    mpc.yield %z : tensor<2x8x32xf32>
  }
  %1 = mpc.reshape %0 : (tensor<2x8x32xf32>) -> tensor<2x8x2x16xf32>
  %2 = mpc.region movement (%1) {kernel = "t"} : (tensor<2x8x2x16xf32>) -> tensor<2x2x8x16xf32> {
  ^bb0(%p: tensor<2x8x2x16xf32>):
    %y = mpc.transpose %p {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x2x16xf32>) -> tensor<2x2x8x16xf32>
    mpc.yield %y : tensor<2x2x8x16xf32>
  }
  return %2 : tensor<2x2x8x16xf32>
}

// The kernel's other result keeps its shape, through a view.
// CHECK-LABEL: func.func @two
// CHECK: %[[Y:.+]]:2 = mpc.region pointwise
// CHECK: %[[V:.+]] = mpc.reshape %[[Y]]#0 : (tensor<2x8x2x16xf32>) -> tensor<2x8x32xf32>
// CHECK: return %[[V]], %[[Y]]#1
func.func @two(%x: tensor<2x8x32xf32>) -> (tensor<2x8x32xf32>, tensor<2x2x8x16xf32>) {
  %0:2 = mpc.region pointwise (%x) {kernel = "q"} : (tensor<2x8x32xf32>) -> (tensor<2x8x32xf32>, tensor<2x8x32xf32>) {
  ^bb0(%p: tensor<2x8x32xf32>):
    %y = mpc.exp %p : (tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
    %z = mpc.neg %y : (tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
    mpc.yield %y, %z : tensor<2x8x32xf32>, tensor<2x8x32xf32>
  }
  %1 = mpc.reshape %0#1 : (tensor<2x8x32xf32>) -> tensor<2x8x2x16xf32>
  %2 = mpc.region movement (%1) {kernel = "t"} : (tensor<2x8x2x16xf32>) -> tensor<2x2x8x16xf32> {
  ^bb0(%p: tensor<2x8x2x16xf32>):
    %y = mpc.transpose %p {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x2x16xf32>) -> tensor<2x2x8x16xf32>
    mpc.yield %y : tensor<2x2x8x16xf32>
  }
  return %0#0, %2 : tensor<2x8x32xf32>, tensor<2x2x8x16xf32>
}

// A norm reads tokens before samples, and stores them behind samples.
// CHECK-LABEL: func.func @norm
// CHECK: %[[Y:.+]]:2 = mpc.region row_reduce(%arg0)
// CHECK: mpc.transpose
// CHECK: mpc.reduce_mean
// CHECK: mpc.sub
// CHECK: mpc.transpose
// CHECK-NOT: movement
// CHECK: return %[[Y]]#0, %[[Y]]#1
func.func @norm(%x: tensor<4x2x16xf32>) -> (tensor<2x4x1xf32>, tensor<4x2x16xf32>) {
  %0 = mpc.region movement (%x) {kernel = "t"} : (tensor<4x2x16xf32>) -> tensor<2x4x16xf32> {
  ^bb0(%p: tensor<4x2x16xf32>):
    %y = mpc.transpose %p {perm = array<i64: 1, 0, 2>} : (tensor<4x2x16xf32>) -> tensor<2x4x16xf32>
    mpc.yield %y : tensor<2x4x16xf32>
  }
  %1:2 = mpc.region row_reduce (%0) {kernel = "n"} : (tensor<2x4x16xf32>) -> (tensor<2x4x1xf32>, tensor<2x4x16xf32>) {
  ^bb0(%p: tensor<2x4x16xf32>):
    %m = mpc.reduce_mean %p {axes = array<i64: 2>, keepdims = true} : (tensor<2x4x16xf32>) -> tensor<2x4x1xf32>
    %d = mpc.sub %p, %m : (tensor<2x4x16xf32>, tensor<2x4x1xf32>) -> tensor<2x4x16xf32>
    mpc.yield %m, %d : tensor<2x4x1xf32>, tensor<2x4x16xf32>
  }
  %2 = mpc.region movement (%1#1) {kernel = "u"} : (tensor<2x4x16xf32>) -> tensor<4x2x16xf32> {
  ^bb0(%p: tensor<2x4x16xf32>):
    %y = mpc.transpose %p {perm = array<i64: 1, 0, 2>} : (tensor<2x4x16xf32>) -> tensor<4x2x16xf32>
    mpc.yield %y : tensor<4x2x16xf32>
  }
  return %1#0, %2 : tensor<2x4x1xf32>, tensor<4x2x16xf32>
}

// Transposes stay for rows of 28 bytes, for columns that become rows, and for a
// dropout, which numbers its elements in order. A generated product reads
// through a transpose, too.
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-3: mpc.region movement
// CHECK-NOT: movement
// CHECK: mpc.region pointwise
// CHECK: mpc.transpose
// CHECK: mpc.exp
// CHECK: mpc.region contraction
// CHECK: %[[X:.+]] = mpc.transpose
// CHECK: mpc.matmul %[[X]]
// CHECK: return
func.func @kept(%x: tensor<4x2x7xf32>, %s: tensor<2x8x32xf32>, %seed: tensor<i64>, %w: tensor<2x16x3xf32>, %z: tensor<4x2x16xf32>)
    -> (tensor<2x4x7xf32>, tensor<2x7x4xf32>, tensor<2x2x8x16xf32>, tensor<2x4x16xf32>, tensor<2x4x3xf32>) {
  %0:2 = mpc.region pointwise (%x) {kernel = "short"} : (tensor<4x2x7xf32>) -> (tensor<4x2x7xf32>, tensor<4x2x7xf32>) {
  ^bb0(%p: tensor<4x2x7xf32>):
    %y = mpc.exp %p : (tensor<4x2x7xf32>) -> tensor<4x2x7xf32>
    %n = mpc.neg %p : (tensor<4x2x7xf32>) -> tensor<4x2x7xf32>
    mpc.yield %y, %n : tensor<4x2x7xf32>, tensor<4x2x7xf32>
  }
  %1 = mpc.region movement (%0#0) {kernel = "a"} : (tensor<4x2x7xf32>) -> tensor<2x4x7xf32> {
  ^bb0(%p: tensor<4x2x7xf32>):
    %y = mpc.transpose %p {perm = array<i64: 1, 0, 2>} : (tensor<4x2x7xf32>) -> tensor<2x4x7xf32>
    mpc.yield %y : tensor<2x4x7xf32>
  }
  %2 = mpc.region movement (%0#1) {kernel = "b"} : (tensor<4x2x7xf32>) -> tensor<2x7x4xf32> {
  ^bb0(%p: tensor<4x2x7xf32>):
    %y = mpc.transpose %p {perm = array<i64: 1, 2, 0>} : (tensor<4x2x7xf32>) -> tensor<2x7x4xf32>
    mpc.yield %y : tensor<2x7x4xf32>
  }
  %3 = mpc.region pointwise (%s, %seed) {kernel = "d"} : (tensor<2x8x32xf32>, tensor<i64>) -> tensor<2x8x32xf32> {
  ^bb0(%p: tensor<2x8x32xf32>, %q: tensor<i64>):
    %y = mpc.random_uniform %q, %q {id = 1 : i64} : (tensor<i64>, tensor<i64>) -> tensor<2x8x32xf32>
    %m = mpc.mul %p, %y : (tensor<2x8x32xf32>, tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
    mpc.yield %m : tensor<2x8x32xf32>
  }
  %4 = mpc.reshape %3 : (tensor<2x8x32xf32>) -> tensor<2x8x2x16xf32>
  %5 = mpc.region movement (%4) {kernel = "c"} : (tensor<2x8x2x16xf32>) -> tensor<2x2x8x16xf32> {
  ^bb0(%p: tensor<2x8x2x16xf32>):
    %y = mpc.transpose %p {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x2x16xf32>) -> tensor<2x2x8x16xf32>
    mpc.yield %y : tensor<2x2x8x16xf32>
  }
  %6 = mpc.region movement (%z) {kernel = "e"} : (tensor<4x2x16xf32>) -> tensor<2x4x16xf32> {
  ^bb0(%p: tensor<4x2x16xf32>):
    %y = mpc.transpose %p {perm = array<i64: 1, 0, 2>} : (tensor<4x2x16xf32>) -> tensor<2x4x16xf32>
    mpc.yield %y : tensor<2x4x16xf32>
  }
  %7 = mpc.region pointwise (%6) {kernel = "f"} : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32> {
  ^bb0(%p: tensor<2x4x16xf32>):
    %y = mpc.exp %p : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    mpc.yield %y : tensor<2x4x16xf32>
  }
  %8 = mpc.region contraction (%6, %w) {kernel = "g", provider = #mpc.provider<generated>} : (tensor<2x4x16xf32>, tensor<2x16x3xf32>) -> tensor<2x4x3xf32> {
  ^bb0(%p: tensor<2x4x16xf32>, %q: tensor<2x16x3xf32>):
    %y = mpc.matmul %p, %q : (tensor<2x4x16xf32>, tensor<2x16x3xf32>) -> tensor<2x4x3xf32>
    mpc.yield %y : tensor<2x4x3xf32>
  }
  return %1, %2, %5, %7, %8 : tensor<2x4x7xf32>, tensor<2x7x4xf32>, tensor<2x2x8x16xf32>, tensor<2x4x16xf32>, tensor<2x4x3xf32>
}
