// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(plan-fold-parts))" | FileCheck %s

// Kernels load their operands' parts of rows, also several of one tensor: two
// gates of a product. A library's epilogue reads one gate too.
// CHECK-LABEL: func.func @parts
// CHECK-NOT: movement
// CHECK: mpc.region pointwise(%arg0, %arg0) {kernel = "gated"}
// CHECK-NEXT: ^bb0(%[[X:.+]]: tensor<8x64xf32>, %[[Y:.+]]: tensor<8x64xf32>):
// CHECK-DAG: %[[LOW:.+]] = mpc.slice %[[X]] {offsets = array<i64: 0, 0>, sizes = array<i64: 8, 32>}
// CHECK-DAG: %[[HIGH:.+]] = mpc.slice %[[Y]] {offsets = array<i64: 0, 32>, sizes = array<i64: 8, 32>}
// CHECK: mpc.mul %[[LOW]], %[[HIGH]]
// CHECK: mpc.region row_reduce(%arg0) {kernel = "total"}
// CHECK: mpc.slice {{.*}} {offsets = array<i64: 0, 32>
// CHECK: mpc.region contraction(%arg1, %arg2, %arg0)
// CHECK: %[[PRODUCT:.+]] = mpc.matmul
// CHECK: mpc.mul %[[PRODUCT]], %{{.+}} : (tensor<8x32xf32>, tensor<8x32xf32>)
func.func @parts(%gates: tensor<8x64xf32>, %a: tensor<8x4xf32>, %b: tensor<4x32xf32>)
    -> (tensor<8x32xf32>, tensor<8x1xf32>, tensor<8x32xf32>) {
  %0 = mpc.region movement (%gates) {kernel = "low"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
  ^bb0(%x: tensor<8x64xf32>):
    %y = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 8, 32>} : (tensor<8x64xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %1 = mpc.region movement (%gates) {kernel = "high"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
  ^bb0(%x: tensor<8x64xf32>):
    %y = mpc.slice %x {offsets = array<i64: 0, 32>, sizes = array<i64: 8, 32>} : (tensor<8x64xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %2 = mpc.region pointwise (%0, %1) {kernel = "gated"} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%x: tensor<8x32xf32>, %y: tensor<8x32xf32>):
    %z = mpc.mul %x, %y : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    mpc.yield %z : tensor<8x32xf32>
  }
  %3 = mpc.region row_reduce (%1) {kernel = "total"} : (tensor<8x32xf32>) -> tensor<8x1xf32> {
  ^bb0(%x: tensor<8x32xf32>):
    %y = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (tensor<8x32xf32>) -> tensor<8x1xf32>
    mpc.yield %y : tensor<8x1xf32>
  }
  %4 = mpc.region contraction (%a, %b, %1) {kernel = "product", provider = #mpc.provider<library>} : (tensor<8x4xf32>, tensor<4x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%x: tensor<8x4xf32>, %y: tensor<4x32xf32>, %g: tensor<8x32xf32>):
    %z = mpc.matmul %x, %y : (tensor<8x4xf32>, tensor<4x32xf32>) -> tensor<8x32xf32>
    %w = mpc.mul %z, %g : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    mpc.yield %w : tensor<8x32xf32>
  }
  return %2, %3, %4 : tensor<8x32xf32>, tensor<8x1xf32>, tensor<8x32xf32>
}

// Kernels that look up elements, sum columns, or take every other element do
// not load parts. An update loads its gradient.
// CHECK-LABEL: func.func @parts_that_are_copied
// CHECK: mpc.region movement{{.*}}kernel = "table"
// CHECK: mpc.region movement{{.*}}kernel = "summed"
// CHECK: mpc.region pointwise(%arg2, %arg0, %arg3) {kernel = "update"}
// CHECK: mpc.region movement{{.*}}kernel = "strided"
func.func @parts_that_are_copied(%x: tensor<8x64xf32>, %indices: tensor<3xi64>, %w: tensor<8x32xf32>, %lr: tensor<f32>)
    -> (tensor<3x32xf32>, tensor<1x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>) {
  %0 = mpc.region movement (%x) {kernel = "table"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x64xf32>):
    %y = mpc.slice %a {offsets = array<i64: 0, 0>, sizes = array<i64: 8, 32>} : (tensor<8x64xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %1 = mpc.region pointwise (%0, %indices) {kernel = "words"} : (tensor<8x32xf32>, tensor<3xi64>) -> tensor<3x32xf32> {
  ^bb0(%a: tensor<8x32xf32>, %i: tensor<3xi64>):
    %y = mpc.gather %a, %i {axis = 0 : i64} : (tensor<8x32xf32>, tensor<3xi64>) -> tensor<3x32xf32>
    mpc.yield %y : tensor<3x32xf32>
  }
  %2 = mpc.region movement (%x) {kernel = "summed"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x64xf32>):
    %y = mpc.slice %a {offsets = array<i64: 0, 8>, sizes = array<i64: 8, 32>} : (tensor<8x64xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %3 = mpc.region column_reduce (%2) {kernel = "sums"} : (tensor<8x32xf32>) -> tensor<1x32xf32> {
  ^bb0(%a: tensor<8x32xf32>):
    %y = mpc.reduce_sum %a {axes = array<i64: 0>, keepdims = true} : (tensor<8x32xf32>) -> tensor<1x32xf32>
    mpc.yield %y : tensor<1x32xf32>
  }
  %4 = mpc.region movement (%x) {kernel = "gradient"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x64xf32>):
    %y = mpc.slice %a {offsets = array<i64: 0, 16>, sizes = array<i64: 8, 32>} : (tensor<8x64xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %5 = mpc.region pointwise (%w, %4, %lr) {kernel = "update"} : (tensor<8x32xf32>, tensor<8x32xf32>, tensor<f32>) -> tensor<8x32xf32> {
  ^bb0(%p: tensor<8x32xf32>, %g: tensor<8x32xf32>, %r: tensor<f32>):
    %y = mpc.sgd %p, %g, %r : (tensor<8x32xf32>, tensor<8x32xf32>, tensor<f32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %6 = mpc.region movement (%x) {kernel = "strided"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x64xf32>):
    %y = mpc.slice %a {offsets = array<i64: 0, 0>, sizes = array<i64: 8, 32>, strides = array<i64: 1, 2>} : (tensor<8x64xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %7 = mpc.region pointwise (%6) {kernel = "even"} : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x32xf32>):
    %y = mpc.relu %a : (tensor<8x32xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  return %1, %3, %5, %7 : tensor<3x32xf32>, tensor<1x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>
}

// If one kernel only joins another kernel's results, the latter stores them side by side. The
// halves of a gated unit's gradient overwrite the halves that it read.
// CHECK-LABEL: func.func @joined
// CHECK: %[[H:.+]] = mpc.region pointwise
// CHECK: %[[G:.+]]:2 = mpc.region pointwise(%arg1, %[[H]], %[[H]]) {kernel = "halves"} : {{.*}} -> (tensor<8x32xf32>, tensor<8x64xf32>)
// CHECK: %[[DU:.+]] = mpc.mul
// CHECK: %[[DV:.+]] = mpc.mul
// CHECK: %[[SUM:.+]] = mpc.add
// CHECK: %[[DH:.+]] = mpc.concat %[[DU]], %[[DV]] {axis = 1 : i64}
// CHECK: mpc.yield %[[SUM]], %[[DH]]
// CHECK-NOT: movement
// CHECK: return %[[G]]#0, %[[G]]#1
func.func @joined(%x: tensor<8x64xf32>, %dy: tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8x64xf32>) {
  %h = mpc.region pointwise (%x) {kernel = "h"} : (tensor<8x64xf32>) -> tensor<8x64xf32> {
  ^bb0(%a: tensor<8x64xf32>):
    %y = mpc.relu %a : (tensor<8x64xf32>) -> tensor<8x64xf32>
    mpc.yield %y : tensor<8x64xf32>
  }
  %u = mpc.region movement (%h) {kernel = "u"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x64xf32>):
    %y = mpc.slice %a {offsets = array<i64: 0, 0>, sizes = array<i64: 8, 32>} : (tensor<8x64xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %v = mpc.region movement (%h) {kernel = "v"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x64xf32>):
    %y = mpc.slice %a {offsets = array<i64: 0, 32>, sizes = array<i64: 8, 32>} : (tensor<8x64xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %g:3 = mpc.region pointwise (%dy, %u, %v) {kernel = "halves"} : (tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>) {
  ^bb0(%d: tensor<8x32xf32>, %a: tensor<8x32xf32>, %b: tensor<8x32xf32>):
    %du = mpc.mul %d, %b : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    %dv = mpc.mul %d, %a : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    %sum = mpc.add %du, %dv : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    mpc.yield %du, %sum, %dv : tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>
  }
  %dh = mpc.region movement (%g#0, %g#2) {kernel = "join"} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32> {
  ^bb0(%a: tensor<8x32xf32>, %b: tensor<8x32xf32>):
    %y = mpc.concat %a, %b {axis = 1} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
    mpc.yield %y : tensor<8x64xf32>
  }
  return %g#1, %dh : tensor<8x32xf32>, tensor<8x64xf32>
}

// A separate kernel joins results of several kernels, results with another
// user, and results that overwrite operands: the join would need extra
// memory.
// CHECK-LABEL: func.func @joined_later
// CHECK: mpc.region movement{{.*}}kernel = "of_two"
// CHECK: mpc.region movement{{.*}}kernel = "read_too"
// CHECK: mpc.region movement{{.*}}kernel = "in_place"
func.func @joined_later(%x: tensor<8x32xf32>, %y: tensor<8x32xf32>)
    -> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x32xf32>, tensor<8x64xf32>) {
  %0 = mpc.region pointwise (%x) {kernel = "a"} : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x32xf32>):
    %z = mpc.relu %a : (tensor<8x32xf32>) -> tensor<8x32xf32>
    mpc.yield %z : tensor<8x32xf32>
  }
  %1 = mpc.region pointwise (%y) {kernel = "b"} : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x32xf32>):
    %z = mpc.relu %a : (tensor<8x32xf32>) -> tensor<8x32xf32>
    mpc.yield %z : tensor<8x32xf32>
  }
  %2 = mpc.region movement (%0, %1) {kernel = "of_two"} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32> {
  ^bb0(%a: tensor<8x32xf32>, %b: tensor<8x32xf32>):
    %z = mpc.concat %a, %b {axis = 1} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
    mpc.yield %z : tensor<8x64xf32>
  }
  %3:2 = mpc.region pointwise (%x, %y) {kernel = "c"} : (tensor<8x32xf32>, tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  ^bb0(%a: tensor<8x32xf32>, %b: tensor<8x32xf32>):
    %z = mpc.mul %a, %b : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    %w = mpc.add %a, %b : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    mpc.yield %z, %w : tensor<8x32xf32>, tensor<8x32xf32>
  }
  %4 = mpc.region movement (%3#0, %3#1) {kernel = "read_too"} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32> {
  ^bb0(%a: tensor<8x32xf32>, %b: tensor<8x32xf32>):
    %z = mpc.concat %a, %b {axis = 1} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
    mpc.yield %z : tensor<8x64xf32>
  }
  %5:2 = mpc.region pointwise (%0, %1) {kernel = "d"} : (tensor<8x32xf32>, tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  ^bb0(%a: tensor<8x32xf32>, %b: tensor<8x32xf32>):
    %z = mpc.mul %a, %b : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    %w = mpc.add %a, %b : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    mpc.yield %z, %w : tensor<8x32xf32>, tensor<8x32xf32>
  }
  %6 = mpc.region movement (%5#0, %5#1) {kernel = "in_place"} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32> {
  ^bb0(%a: tensor<8x32xf32>, %b: tensor<8x32xf32>):
    %z = mpc.concat %a, %b {axis = 1} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
    mpc.yield %z : tensor<8x64xf32>
  }
  return %2, %4, %3#1, %6 : tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x32xf32>, tensor<8x64xf32>
}

// If the backward pass of a gated unit reads less than both whole halves, the
// halves are copied: u of u * sigmoid(v).
// CHECK-LABEL: func.func @kept_half
// CHECK: mpc.region movement{{.*}}kernel = "u"
// CHECK: mpc.region movement{{.*}}kernel = "v"
func.func @kept_half(%x: tensor<8x64xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %h = mpc.region pointwise (%x) {kernel = "h"} : (tensor<8x64xf32>) -> tensor<8x64xf32> {
  ^bb0(%a: tensor<8x64xf32>):
    %y = mpc.relu %a : (tensor<8x64xf32>) -> tensor<8x64xf32>
    mpc.yield %y : tensor<8x64xf32>
  }
  %u = mpc.region movement (%h) {kernel = "u"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x64xf32>):
    %y = mpc.slice %a {offsets = array<i64: 0, 0>, sizes = array<i64: 8, 32>} : (tensor<8x64xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %v = mpc.region movement (%h) {kernel = "v"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x64xf32>):
    %y = mpc.slice %a {offsets = array<i64: 0, 32>, sizes = array<i64: 8, 32>} : (tensor<8x64xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %p = mpc.region pointwise (%u, %v) {kernel = "forward"} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x32xf32>, %b: tensor<8x32xf32>):
    %y = mpc.mul %a, %b : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  %d = mpc.region pointwise (%u) {kernel = "backward", mpc.phase = #mpc.phase<backward>} : (tensor<8x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x32xf32>):
    %y = mpc.relu %a : (tensor<8x32xf32>) -> tensor<8x32xf32>
    mpc.yield %y : tensor<8x32xf32>
  }
  return %p, %d : tensor<8x32xf32>, tensor<8x32xf32>
}

// Parts with gaps between elements are copied: the real and imaginary parts of
// complex numbers.
// CHECK-LABEL: func.func @complex
// CHECK: mpc.region movement{{.*}}kernel = "real"
// CHECK: mpc.region movement{{.*}}kernel = "imaginary"
// CHECK: mpc.region movement{{.*}}kernel = "number"
func.func @complex(%x: tensor<8x2xf32>) -> tensor<8x2xf32> {
  %0 = mpc.region movement (%x) {kernel = "real"} : (tensor<8x2xf32>) -> tensor<8x1xf32> {
  ^bb0(%a: tensor<8x2xf32>):
    %z = mpc.slice %a {offsets = array<i64: 0, 0>, sizes = array<i64: 8, 1>} : (tensor<8x2xf32>) -> tensor<8x1xf32>
    mpc.yield %z : tensor<8x1xf32>
  }
  %1 = mpc.region movement (%x) {kernel = "imaginary"} : (tensor<8x2xf32>) -> tensor<8x1xf32> {
  ^bb0(%a: tensor<8x2xf32>):
    %z = mpc.slice %a {offsets = array<i64: 0, 1>, sizes = array<i64: 8, 1>} : (tensor<8x2xf32>) -> tensor<8x1xf32>
    mpc.yield %z : tensor<8x1xf32>
  }
  %2:2 = mpc.region pointwise (%0, %1) {kernel = "both"} : (tensor<8x1xf32>, tensor<8x1xf32>) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  ^bb0(%a: tensor<8x1xf32>, %b: tensor<8x1xf32>):
    %z = mpc.mul %a, %b : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
    %w = mpc.add %a, %b : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
    mpc.yield %z, %w : tensor<8x1xf32>, tensor<8x1xf32>
  }
  %3 = mpc.region movement (%2#0, %2#1) {kernel = "number"} : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x2xf32> {
  ^bb0(%a: tensor<8x1xf32>, %b: tensor<8x1xf32>):
    %z = mpc.concat %a, %b {axis = 1} : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x2xf32>
    mpc.yield %z : tensor<8x2xf32>
  }
  return %3 : tensor<8x2xf32>
}
