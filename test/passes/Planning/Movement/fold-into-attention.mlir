// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(plan-fold-movement,plan-assemble-joins))" | FileCheck %s

// Heads are columns of a projection [samples, tokens, 3 * heads * 16]. Attention
// reads them there, and writes heads of the output side by side. The gradient
// reads the output where attention has written it, and writes columns of the
// projection's gradient.
// CHECK-LABEL: func.func @step
// CHECK-NOT: mpc.transpose
// CHECK-NOT: mpc.slice
// CHECK: %[[Q:.*]] = plan.access %arg0 {offset = 0 : i64, strides = array<i64: 1008, 16, 144, 1>}
// CHECK: %[[K:.*]] = plan.access %arg0 {offset = 48 : i64, strides = array<i64: 1008, 16, 144, 1>}
// CHECK: %[[V:.*]] = plan.access %arg0 {offset = 96 : i64, strides = array<i64: 1008, 16, 144, 1>}
// CHECK: %[[Y:.*]], %[[S:.*]] = mpc.library_attention %[[Q]], %[[K]], %[[V]]
// CHECK: %[[OUT:.*]] = plan.arrange %[[Y]] {perm = array<i64: 0, 2, 1, 3>} : tensor<2x3x7x16xbf16> to tensor<2x7x3x16xbf16>
// CHECK: %[[DY:.*]] = plan.access %{{.*}} {offset = 0 : i64, strides = array<i64: 336, 16, 48, 1>}
// CHECK: %[[READ:.*]] = plan.access %[[OUT]] {offset = 0 : i64, strides = array<i64: 336, 16, 48, 1>}
// CHECK: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = mpc.library_attention_grad %[[DY]], %{{.*}}, %{{.*}}, %{{.*}}, %[[READ]], %[[S]]
// CHECK: %[[AV:.*]] = plan.arrange %[[DV]]
// CHECK: %[[PV:.*]] = plan.place %[[AV]] {offsets = array<i64: 0, 0, 6, 0>}
// CHECK: %[[AK:.*]] = plan.arrange %[[DK]]
// CHECK: %[[PK:.*]] = plan.place %[[AK]] {offsets = array<i64: 0, 0, 3, 0>}
// CHECK: %[[AQ:.*]] = plan.arrange %[[DQ]]
// CHECK: %[[PQ:.*]] = plan.place %[[AQ]] : tensor<2x7x3x16xbf16> to tensor<2x7x9x16xbf16>
// CHECK: plan.assemble %[[PQ]], %[[PK]], %[[PV]]
// CHECK-NOT: mpc.concat
func.func @step(%p: tensor<2x7x144xbf16>, %dy: tensor<2x7x48xbf16>) -> (tensor<2x7x48xf32>, tensor<2x7x144xf32>) {
  %0 = mpc.region movement(%p) {kernel = "q"} : (tensor<2x7x144xbf16>) -> tensor<2x7x48xbf16> {
  ^bb0(%a: tensor<2x7x144xbf16>):
    %r = mpc.slice %a {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 2, 7, 48>} : (tensor<2x7x144xbf16>) -> tensor<2x7x48xbf16>
    mpc.yield %r : tensor<2x7x48xbf16>
  }
  %1 = mpc.region movement(%p) {kernel = "k"} : (tensor<2x7x144xbf16>) -> tensor<2x7x48xbf16> {
  ^bb0(%a: tensor<2x7x144xbf16>):
    %r = mpc.slice %a {offsets = array<i64: 0, 0, 48>, sizes = array<i64: 2, 7, 48>} : (tensor<2x7x144xbf16>) -> tensor<2x7x48xbf16>
    mpc.yield %r : tensor<2x7x48xbf16>
  }
  %2 = mpc.region movement(%p) {kernel = "v"} : (tensor<2x7x144xbf16>) -> tensor<2x7x48xbf16> {
  ^bb0(%a: tensor<2x7x144xbf16>):
    %r = mpc.slice %a {offsets = array<i64: 0, 0, 96>, sizes = array<i64: 2, 7, 48>} : (tensor<2x7x144xbf16>) -> tensor<2x7x48xbf16>
    mpc.yield %r : tensor<2x7x48xbf16>
  }
  %3 = mpc.reshape %0 : (tensor<2x7x48xbf16>) -> tensor<2x7x3x16xbf16>
  %4 = mpc.reshape %1 : (tensor<2x7x48xbf16>) -> tensor<2x7x3x16xbf16>
  %5 = mpc.reshape %2 : (tensor<2x7x48xbf16>) -> tensor<2x7x3x16xbf16>
  %q = mpc.region movement(%3) {kernel = "qt"} : (tensor<2x7x3x16xbf16>) -> tensor<2x3x7x16xbf16> {
  ^bb0(%a: tensor<2x7x3x16xbf16>):
    %r = mpc.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x7x3x16xbf16>) -> tensor<2x3x7x16xbf16>
    mpc.yield %r : tensor<2x3x7x16xbf16>
  }
  %k = mpc.region movement(%4) {kernel = "kt"} : (tensor<2x7x3x16xbf16>) -> tensor<2x3x7x16xbf16> {
  ^bb0(%a: tensor<2x7x3x16xbf16>):
    %r = mpc.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x7x3x16xbf16>) -> tensor<2x3x7x16xbf16>
    mpc.yield %r : tensor<2x3x7x16xbf16>
  }
  %v = mpc.region movement(%5) {kernel = "vt"} : (tensor<2x7x3x16xbf16>) -> tensor<2x3x7x16xbf16> {
  ^bb0(%a: tensor<2x7x3x16xbf16>):
    %r = mpc.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x7x3x16xbf16>) -> tensor<2x3x7x16xbf16>
    mpc.yield %r : tensor<2x3x7x16xbf16>
  }
  %y, %s = mpc.library_attention %q, %k, %v : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>) -> (tensor<2x3x7x16xbf16>, tensor<2x3x7xf32>)
  %6 = mpc.region movement(%y) {kernel = "yt"} : (tensor<2x3x7x16xbf16>) -> tensor<2x7x3x16xbf16> {
  ^bb0(%a: tensor<2x3x7x16xbf16>):
    %r = mpc.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x7x16xbf16>) -> tensor<2x7x3x16xbf16>
    mpc.yield %r : tensor<2x7x3x16xbf16>
  }
  %7 = mpc.reshape %6 : (tensor<2x7x3x16xbf16>) -> tensor<2x7x48xbf16>
  %out = mpc.region pointwise(%7) {kernel = "out"} : (tensor<2x7x48xbf16>) -> tensor<2x7x48xf32> {
  ^bb0(%a: tensor<2x7x48xbf16>):
    %r = mpc.exp %a : (tensor<2x7x48xbf16>) -> tensor<2x7x48xf32>
    mpc.yield %r : tensor<2x7x48xf32>
  }
  %8 = mpc.reshape %dy : (tensor<2x7x48xbf16>) -> tensor<2x7x3x16xbf16>
  %dyt = mpc.region movement(%8) {kernel = "dyt"} : (tensor<2x7x3x16xbf16>) -> tensor<2x3x7x16xbf16> {
  ^bb0(%a: tensor<2x7x3x16xbf16>):
    %r = mpc.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x7x3x16xbf16>) -> tensor<2x3x7x16xbf16>
    mpc.yield %r : tensor<2x3x7x16xbf16>
  }
  %dq, %dk, %dv = mpc.library_attention_grad %dyt, %q, %k, %v, %y, %s
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7xf32>)
     -> (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>)
  %9 = mpc.region movement(%dq) {kernel = "dqt"} : (tensor<2x3x7x16xbf16>) -> tensor<2x7x3x16xbf16> {
  ^bb0(%a: tensor<2x3x7x16xbf16>):
    %r = mpc.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x7x16xbf16>) -> tensor<2x7x3x16xbf16>
    mpc.yield %r : tensor<2x7x3x16xbf16>
  }
  %10 = mpc.region movement(%dk) {kernel = "dkt"} : (tensor<2x3x7x16xbf16>) -> tensor<2x7x3x16xbf16> {
  ^bb0(%a: tensor<2x3x7x16xbf16>):
    %r = mpc.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x7x16xbf16>) -> tensor<2x7x3x16xbf16>
    mpc.yield %r : tensor<2x7x3x16xbf16>
  }
  %11 = mpc.region movement(%dv) {kernel = "dvt"} : (tensor<2x3x7x16xbf16>) -> tensor<2x7x3x16xbf16> {
  ^bb0(%a: tensor<2x3x7x16xbf16>):
    %r = mpc.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x7x16xbf16>) -> tensor<2x7x3x16xbf16>
    mpc.yield %r : tensor<2x7x3x16xbf16>
  }
  %12 = mpc.reshape %9 : (tensor<2x7x3x16xbf16>) -> tensor<2x7x48xbf16>
  %13 = mpc.reshape %10 : (tensor<2x7x3x16xbf16>) -> tensor<2x7x48xbf16>
  %14 = mpc.reshape %11 : (tensor<2x7x3x16xbf16>) -> tensor<2x7x48xbf16>
  %15 = mpc.region movement(%12, %13, %14) {kernel = "join"} : (tensor<2x7x48xbf16>, tensor<2x7x48xbf16>, tensor<2x7x48xbf16>) -> tensor<2x7x144xbf16> {
  ^bb0(%a: tensor<2x7x48xbf16>, %b: tensor<2x7x48xbf16>, %c: tensor<2x7x48xbf16>):
    %r = mpc.concat %a, %b, %c {axis = 2 : i64} : (tensor<2x7x48xbf16>, tensor<2x7x48xbf16>, tensor<2x7x48xbf16>) -> tensor<2x7x144xbf16>
    mpc.yield %r : tensor<2x7x144xbf16>
  }
  %dp = mpc.region pointwise(%15) {kernel = "dp"} : (tensor<2x7x144xbf16>) -> tensor<2x7x144xf32> {
  ^bb0(%a: tensor<2x7x144xbf16>):
    %r = mpc.exp %a : (tensor<2x7x144xbf16>) -> tensor<2x7x144xf32>
    mpc.yield %r : tensor<2x7x144xf32>
  }
  return %out, %dp : tensor<2x7x48xf32>, tensor<2x7x144xf32>
}

// Rows that do not start at whole vectors of 16 bytes are moved. So is an output
// that another kernel reads by heads.
// CHECK-LABEL: func.func @moved
// CHECK: mpc.slice
// CHECK-NOT: plan.access
// CHECK: %[[Y:.*]], %{{.*}} = mpc.library_attention
// CHECK-NOT: plan.arrange
// CHECK: mpc.transpose
func.func @moved(%p: tensor<2x3x7x20xbf16>, %k: tensor<2x3x7x16xbf16>) -> (tensor<2x7x3x16xbf16>, tensor<2x3x7x16xf32>) {
  %q = mpc.region movement(%p) {kernel = "q"} : (tensor<2x3x7x20xbf16>) -> tensor<2x3x7x16xbf16> {
  ^bb0(%a: tensor<2x3x7x20xbf16>):
    %r = mpc.slice %a {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 7, 16>} : (tensor<2x3x7x20xbf16>) -> tensor<2x3x7x16xbf16>
    mpc.yield %r : tensor<2x3x7x16xbf16>
  }
  %y, %s = mpc.library_attention %q, %k, %k : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>) -> (tensor<2x3x7x16xbf16>, tensor<2x3x7xf32>)
  %0 = mpc.region movement(%y) {kernel = "yt"} : (tensor<2x3x7x16xbf16>) -> tensor<2x7x3x16xbf16> {
  ^bb0(%a: tensor<2x3x7x16xbf16>):
    %r = mpc.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x7x16xbf16>) -> tensor<2x7x3x16xbf16>
    mpc.yield %r : tensor<2x7x3x16xbf16>
  }
  %1 = mpc.region pointwise(%y) {kernel = "out"} : (tensor<2x3x7x16xbf16>) -> tensor<2x3x7x16xf32> {
  ^bb0(%a: tensor<2x3x7x16xbf16>):
    %r = mpc.exp %a : (tensor<2x3x7x16xbf16>) -> tensor<2x3x7x16xf32>
    mpc.yield %r : tensor<2x3x7x16xf32>
  }
  return %0, %1 : tensor<2x7x3x16xbf16>, tensor<2x3x7x16xf32>
}
