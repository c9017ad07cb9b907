// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=x86-64-v3},func.func(plan-fold-movement))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_80},func.func(plan-fold-movement))" | FileCheck %s --check-prefix=GPU

// The heads of an attention are columns of one matrix, and the queries are a
// slice of it.
// CHECK-LABEL: func.func @heads
// CHECK-NOT: movement
// CHECK: %[[Q:.+]] = plan.access %arg0 {offset = 0 : i64, strides = array<i64: 192, 4, 24, 1>} : tensor<2x8x24xf32> to tensor<2x2x8x4xf32>
// CHECK: %[[K:.+]] = plan.access %arg0 {offset = 8 : i64, strides = array<i64: 192, 4, 24, 1>} : tensor<2x8x24xf32> to tensor<2x2x8x4xf32>
// CHECK: mpc.region contraction(%[[Q]], %[[K]])
// GPU-LABEL: func.func @heads
// GPU-NOT: plan.access
func.func @heads(%qkv: tensor<2x8x24xf32>) -> tensor<2x2x8x8xf32> {
  %0 = mpc.region movement (%qkv) {kernel = "q"} : (tensor<2x8x24xf32>) -> tensor<2x8x8xf32> {
  ^bb0(%x: tensor<2x8x24xf32>):
    %y = mpc.slice %x {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 2, 8, 8>} : (tensor<2x8x24xf32>) -> tensor<2x8x8xf32>
    mpc.yield %y : tensor<2x8x8xf32>
  }
  %1 = mpc.region movement (%qkv) {kernel = "k"} : (tensor<2x8x24xf32>) -> tensor<2x8x8xf32> {
  ^bb0(%x: tensor<2x8x24xf32>):
    %y = mpc.slice %x {offsets = array<i64: 0, 0, 8>, sizes = array<i64: 2, 8, 8>} : (tensor<2x8x24xf32>) -> tensor<2x8x8xf32>
    mpc.yield %y : tensor<2x8x8xf32>
  }
  %2 = mpc.reshape %0 : (tensor<2x8x8xf32>) -> tensor<2x8x2x4xf32>
  %3 = mpc.reshape %1 : (tensor<2x8x8xf32>) -> tensor<2x8x2x4xf32>
  %4 = mpc.region movement (%2) {kernel = "qt"} : (tensor<2x8x2x4xf32>) -> tensor<2x2x8x4xf32> {
  ^bb0(%x: tensor<2x8x2x4xf32>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x2x4xf32>) -> tensor<2x2x8x4xf32>
    mpc.yield %y : tensor<2x2x8x4xf32>
  }
  %5 = mpc.region movement (%3) {kernel = "kt"} : (tensor<2x8x2x4xf32>) -> tensor<2x2x8x4xf32> {
  ^bb0(%x: tensor<2x8x2x4xf32>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x2x4xf32>) -> tensor<2x2x8x4xf32>
    mpc.yield %y : tensor<2x2x8x4xf32>
  }
  %6 = mpc.region contraction (%4, %5) {kernel = "s", provider = #mpc.provider<library>} : (tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>) -> tensor<2x2x8x8xf32> {
  ^bb0(%q: tensor<2x2x8x4xf32>, %k: tensor<2x2x8x4xf32>):
    %y = mpc.matmul %q, %k {transB = true} : (tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>) -> tensor<2x2x8x8xf32>
    mpc.yield %y : tensor<2x2x8x8xf32>
  }
  return %6 : tensor<2x2x8x8xf32>
}

// The heads' results are written as columns of one matrix again.
// CHECK-LABEL: func.func @result
// CHECK: %[[Y:.+]] = mpc.region contraction
// CHECK: %[[T:.+]] = plan.arrange %[[Y]] {perm = array<i64: 0, 2, 1, 3>} : tensor<2x2x8x4xf32> to tensor<2x8x2x4xf32>
// CHECK-NOT: movement
// CHECK: return %[[T]]
// GPU-LABEL: func.func @result
// GPU-NOT: plan.arrange
func.func @result(%p: tensor<2x2x8x8xf32>, %v: tensor<2x2x8x4xf32>) -> tensor<2x8x2x4xf32> {
  %0 = mpc.region contraction (%p, %v) {kernel = "y", provider = #mpc.provider<library>} : (tensor<2x2x8x8xf32>, tensor<2x2x8x4xf32>) -> tensor<2x2x8x4xf32> {
  ^bb0(%x: tensor<2x2x8x8xf32>, %w: tensor<2x2x8x4xf32>):
    %y = mpc.matmul %x, %w : (tensor<2x2x8x8xf32>, tensor<2x2x8x4xf32>) -> tensor<2x2x8x4xf32>
    mpc.yield %y : tensor<2x2x8x4xf32>
  }
  %1 = mpc.region movement (%0) {kernel = "t"} : (tensor<2x2x8x4xf32>) -> tensor<2x8x2x4xf32> {
  ^bb0(%x: tensor<2x2x8x4xf32>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x8x4xf32>) -> tensor<2x8x2x4xf32>
    mpc.yield %y : tensor<2x8x2x4xf32>
  }
  return %1 : tensor<2x8x2x4xf32>
}

// Heads that share keys are written too: two axes of the product are one axis
// of the transpose.
// CHECK-LABEL: func.func @shared_heads
// CHECK: %[[Y:.+]] = mpc.region contraction
// CHECK: %[[T:.+]] = plan.arrange %[[Y]] {perm = array<i64: 0, 3, 1, 2, 4>} : tensor<2x3x4x8x16xf32> to tensor<2x8x3x4x16xf32>
// CHECK-NOT: movement
// CHECK: %[[V:.+]] = mpc.reshape %[[T]] : (tensor<2x8x3x4x16xf32>) -> tensor<2x8x12x16xf32>
// CHECK: return %[[V]]
func.func @shared_heads(%p: tensor<2x3x4x8x8xf32>, %v: tensor<2x3x1x8x16xf32>) -> tensor<2x8x12x16xf32> {
  %0 = mpc.region contraction (%p, %v) {kernel = "y", provider = #mpc.provider<library>} : (tensor<2x3x4x8x8xf32>, tensor<2x3x1x8x16xf32>) -> tensor<2x3x4x8x16xf32> {
  ^bb0(%x: tensor<2x3x4x8x8xf32>, %w: tensor<2x3x1x8x16xf32>):
    %y = mpc.matmul %x, %w : (tensor<2x3x4x8x8xf32>, tensor<2x3x1x8x16xf32>) -> tensor<2x3x4x8x16xf32>
    mpc.yield %y : tensor<2x3x4x8x16xf32>
  }
  %1 = mpc.reshape %0 : (tensor<2x3x4x8x16xf32>) -> tensor<2x12x8x16xf32>
  %2 = mpc.region movement (%1) {kernel = "t"} : (tensor<2x12x8x16xf32>) -> tensor<2x8x12x16xf32> {
  ^bb0(%x: tensor<2x12x8x16xf32>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x12x8x16xf32>) -> tensor<2x8x12x16xf32>
    mpc.yield %y : tensor<2x8x12x16xf32>
  }
  return %2 : tensor<2x8x12x16xf32>
}

// A view that splits rows, or merges parts of axes, stays in between.
// CHECK-LABEL: func.func @cut_rows
// CHECK: mpc.reshape
// CHECK: mpc.region movement
func.func @cut_rows(%p: tensor<2x8x8xf32>, %v: tensor<2x8x32xf32>) -> tensor<8x4x16xf32> {
  %0 = mpc.region contraction (%p, %v) {kernel = "y", provider = #mpc.provider<library>} : (tensor<2x8x8xf32>, tensor<2x8x32xf32>) -> tensor<2x8x32xf32> {
  ^bb0(%x: tensor<2x8x8xf32>, %w: tensor<2x8x32xf32>):
    %y = mpc.matmul %x, %w : (tensor<2x8x8xf32>, tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
    mpc.yield %y : tensor<2x8x32xf32>
  }
  %1 = mpc.reshape %0 : (tensor<2x8x32xf32>) -> tensor<4x8x16xf32>
  %2 = mpc.region movement (%1) {kernel = "t"} : (tensor<4x8x16xf32>) -> tensor<8x4x16xf32> {
  ^bb0(%x: tensor<4x8x16xf32>):
    %y = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<4x8x16xf32>) -> tensor<8x4x16xf32>
    mpc.yield %y : tensor<8x4x16xf32>
  }
  return %2 : tensor<8x4x16xf32>
}

// If the product has an epilogue or is generated, its kernel stores the transposed result. A
// transpose of columns to rows stays, and so does one whose operand has other users.
//
// CHECK-LABEL: func.func @stored
// CHECK: mpc.region contraction{{.*}} provider = #mpc.provider<library>} : {{.*}} -> (tensor<2x8x2x4xf32>, tensor<2x2x8x4xf32>)
// CHECK: %[[S:.+]] = mpc.mul
// CHECK: %[[T:.+]] = mpc.transpose %[[S]] {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x8x4xf32>) -> tensor<2x8x2x4xf32>
// CHECK: mpc.yield %[[T]], %[[S]]
// CHECK: mpc.region movement
// CHECK: perm = array<i64: 0, 1, 3, 2>
// CHECK: mpc.region contraction{{.*}} provider = #mpc.provider<generated>} : {{.*}} -> tensor<2x8x2x4xf64>
// CHECK: %[[Y:.+]] = mpc.matmul
// CHECK: %[[T:.+]] = mpc.transpose %[[Y]]
// CHECK: mpc.yield %[[T]]
// CHECK-NOT: movement
// CHECK: return
// GPU-LABEL: func.func @stored
// GPU-COUNT-2: mpc.region movement
// GPU: mpc.region contraction{{.*}} provider = #mpc.provider<generated>} : {{.*}} -> tensor<2x8x2x4xf64>
// GPU-NOT: movement
// GPU: return
func.func @stored(%p: tensor<2x2x8x8xf32>, %v: tensor<2x2x8x4xf32>, %s: tensor<f32>, %d: tensor<2x2x8x8xf64>, %e: tensor<2x2x8x4xf64>)
    -> (tensor<2x8x2x4xf32>, tensor<2x2x4x8xf32>, tensor<2x8x2x4xf64>) {
  %0:2 = mpc.region contraction (%p, %v, %s) {kernel = "y", provider = #mpc.provider<library>}
      : (tensor<2x2x8x8xf32>, tensor<2x2x8x4xf32>, tensor<f32>) -> (tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>) {
  ^bb0(%x: tensor<2x2x8x8xf32>, %w: tensor<2x2x8x4xf32>, %c: tensor<f32>):
    %y = mpc.matmul %x, %w : (tensor<2x2x8x8xf32>, tensor<2x2x8x4xf32>) -> tensor<2x2x8x4xf32>
    %z = mpc.mul %y, %c : (tensor<2x2x8x4xf32>, tensor<f32>) -> tensor<2x2x8x4xf32>
    mpc.yield %z, %z : tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>
  }
  %1 = mpc.region movement (%0#0) {kernel = "t"} : (tensor<2x2x8x4xf32>) -> tensor<2x8x2x4xf32> {
  ^bb0(%x: tensor<2x2x8x4xf32>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x8x4xf32>) -> tensor<2x8x2x4xf32>
    mpc.yield %y : tensor<2x8x2x4xf32>
  }
  %2 = mpc.region movement (%0#1) {kernel = "u"} : (tensor<2x2x8x4xf32>) -> tensor<2x2x4x8xf32> {
  ^bb0(%x: tensor<2x2x8x4xf32>):
    %y = mpc.transpose %x {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x8x4xf32>) -> tensor<2x2x4x8xf32>
    mpc.yield %y : tensor<2x2x4x8xf32>
  }
  %3 = mpc.region contraction (%d, %e) {kernel = "z", provider = #mpc.provider<generated>} : (tensor<2x2x8x8xf64>, tensor<2x2x8x4xf64>) -> tensor<2x2x8x4xf64> {
  ^bb0(%x: tensor<2x2x8x8xf64>, %w: tensor<2x2x8x4xf64>):
    %y = mpc.matmul %x, %w : (tensor<2x2x8x8xf64>, tensor<2x2x8x4xf64>) -> tensor<2x2x8x4xf64>
    mpc.yield %y : tensor<2x2x8x4xf64>
  }
  %4 = mpc.region movement (%3) {kernel = "v"} : (tensor<2x2x8x4xf64>) -> tensor<2x8x2x4xf64> {
  ^bb0(%x: tensor<2x2x8x4xf64>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x8x4xf64>) -> tensor<2x8x2x4xf64>
    mpc.yield %y : tensor<2x8x2x4xf64>
  }
  return %1, %2, %4 : tensor<2x8x2x4xf32>, tensor<2x2x4x8xf32>, tensor<2x8x2x4xf64>
}

// The product's rows would not be contiguous, and an epilogue reads the other moved value.
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-2: mpc.transpose
// CHECK-NOT: plan.access
// GPU-LABEL: func.func @kept
func.func @kept(%a: tensor<8x4x3xf32>, %b: tensor<3x8x5xf32>, %c: tensor<5x4xf32>) -> tensor<3x4x5xf32> {
  %0 = mpc.region movement (%a) {kernel = "a"} : (tensor<8x4x3xf32>) -> tensor<3x4x8xf32> {
  ^bb0(%x: tensor<8x4x3xf32>):
    %y = mpc.transpose %x {perm = array<i64: 2, 1, 0>} : (tensor<8x4x3xf32>) -> tensor<3x4x8xf32>
    mpc.yield %y : tensor<3x4x8xf32>
  }
  %1 = mpc.region movement (%c) {kernel = "c"} : (tensor<5x4xf32>) -> tensor<4x5xf32> {
  ^bb0(%x: tensor<5x4xf32>):
    %y = mpc.transpose %x {perm = array<i64: 1, 0>} : (tensor<5x4xf32>) -> tensor<4x5xf32>
    mpc.yield %y : tensor<4x5xf32>
  }
  %2 = mpc.region contraction (%0, %b, %1) {kernel = "y", provider = #mpc.provider<library>} : (tensor<3x4x8xf32>, tensor<3x8x5xf32>, tensor<4x5xf32>) -> tensor<3x4x5xf32> {
  ^bb0(%x: tensor<3x4x8xf32>, %w: tensor<3x8x5xf32>, %s: tensor<4x5xf32>):
    %y = mpc.matmul %x, %w : (tensor<3x4x8xf32>, tensor<3x8x5xf32>) -> tensor<3x4x5xf32>
    %z = mpc.add %y, %s : (tensor<3x4x5xf32>, tensor<4x5xf32>) -> tensor<3x4x5xf32>
    mpc.yield %z : tensor<3x4x5xf32>
  }
  return %2 : tensor<3x4x5xf32>
}

// Every kernel reads contiguous elements in place: here rows of a weight, at a multiple of 16 bytes
// on a GPU. It does not for a few columns, for a small part that would keep a large buffer alive,
// or for a result, which the caller places.
// CHECK-LABEL: func.func @sections
// CHECK: %[[G:.+]] = plan.access %arg0 {offset = 12 : i64, strides = array<i64: 3, 1>} : tensor<8x3xf32> to tensor<2x3xf32>
// CHECK: mpc.region pointwise(%[[G]])
// CHECK: mpc.region movement{{.*}}kernel = "columns"
// CHECK: mpc.region pointwise{{.*}}kernel = "large"
// CHECK: mpc.region movement{{.*}}kernel = "last"
// CHECK: mpc.region movement{{.*}}kernel = "returned"
// GPU-LABEL: func.func @sections
// GPU: plan.access %arg0 {offset = 12 : i64
// GPU: mpc.region movement{{.*}}kernel = "odd"
func.func @sections(%w: tensor<8x3xf32>)
    -> (tensor<2x3xf32>, tensor<8x2xf32>, tensor<1x3xf32>, tensor<1x3xf32>, tensor<3xf32>) {
  %0 = mpc.region movement (%w) {kernel = "gate"} : (tensor<8x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%x: tensor<8x3xf32>):
    %y = mpc.slice %x {offsets = array<i64: 4, 0>, sizes = array<i64: 2, 3>} : (tensor<8x3xf32>) -> tensor<2x3xf32>
    mpc.yield %y : tensor<2x3xf32>
  }
  %1 = mpc.region pointwise (%0) {kernel = "relu"} : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%x: tensor<2x3xf32>):
    %y = mpc.relu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
    mpc.yield %y : tensor<2x3xf32>
  }
  %2 = mpc.region movement (%w) {kernel = "columns"} : (tensor<8x3xf32>) -> tensor<8x2xf32> {
  ^bb0(%x: tensor<8x3xf32>):
    %y = mpc.slice %x {offsets = array<i64: 0, 1>, sizes = array<i64: 8, 2>} : (tensor<8x3xf32>) -> tensor<8x2xf32>
    mpc.yield %y : tensor<8x2xf32>
  }
  %3 = mpc.region pointwise (%2) {kernel = "read"} : (tensor<8x2xf32>) -> tensor<8x2xf32> {
  ^bb0(%x: tensor<8x2xf32>):
    %y = mpc.relu %x : (tensor<8x2xf32>) -> tensor<8x2xf32>
    mpc.yield %y : tensor<8x2xf32>
  }
  %4 = mpc.region pointwise (%w) {kernel = "large"} : (tensor<8x3xf32>) -> tensor<8x3xf32> {
  ^bb0(%x: tensor<8x3xf32>):
    %y = mpc.relu %x : (tensor<8x3xf32>) -> tensor<8x3xf32>
    mpc.yield %y : tensor<8x3xf32>
  }
  %5 = mpc.region movement (%4) {kernel = "last"} : (tensor<8x3xf32>) -> tensor<1x3xf32> {
  ^bb0(%x: tensor<8x3xf32>):
    %y = mpc.slice %x {offsets = array<i64: 7, 0>, sizes = array<i64: 1, 3>} : (tensor<8x3xf32>) -> tensor<1x3xf32>
    mpc.yield %y : tensor<1x3xf32>
  }
  %6 = mpc.region pointwise (%5) {kernel = "of_last"} : (tensor<1x3xf32>) -> tensor<1x3xf32> {
  ^bb0(%x: tensor<1x3xf32>):
    %y = mpc.relu %x : (tensor<1x3xf32>) -> tensor<1x3xf32>
    mpc.yield %y : tensor<1x3xf32>
  }
  %7 = mpc.region movement (%w) {kernel = "odd"} : (tensor<8x3xf32>) -> tensor<1x3xf32> {
  ^bb0(%x: tensor<8x3xf32>):
    %y = mpc.slice %x {offsets = array<i64: 1, 0>, sizes = array<i64: 1, 3>} : (tensor<8x3xf32>) -> tensor<1x3xf32>
    mpc.yield %y : tensor<1x3xf32>
  }
  %8 = mpc.region pointwise (%7) {kernel = "of_odd"} : (tensor<1x3xf32>) -> tensor<1x3xf32> {
  ^bb0(%x: tensor<1x3xf32>):
    %y = mpc.relu %x : (tensor<1x3xf32>) -> tensor<1x3xf32>
    mpc.yield %y : tensor<1x3xf32>
  }
  %9 = mpc.region movement (%w) {kernel = "returned"} : (tensor<8x3xf32>) -> tensor<1x3xf32> {
  ^bb0(%x: tensor<8x3xf32>):
    %y = mpc.slice %x {offsets = array<i64: 4, 0>, sizes = array<i64: 1, 3>} : (tensor<8x3xf32>) -> tensor<1x3xf32>
    mpc.yield %y : tensor<1x3xf32>
  }
  %10 = mpc.reshape %9 : (tensor<1x3xf32>) -> tensor<3xf32>
  return %1, %3, %6, %8, %10 : tensor<2x3xf32>, tensor<8x2xf32>, tensor<1x3xf32>, tensor<1x3xf32>, tensor<3xf32>
}

// A generated product reads heads of queries in place, and a head of keys that
// two heads of queries share. So do Tensor Cores.
// CHECK-LABEL: func.func @generated
// CHECK-NOT: movement
// CHECK: mpc.region contraction
// CHECK-NEXT: ^bb0(%[[Q:.+]]: tensor<2x8x2x16xbf16>, %[[K:.+]]: tensor<2x1x8x16xbf16>)
// CHECK-DAG: %[[X:.+]] = mpc.transpose %[[Q]] {perm = array<i64: 0, 2, 1, 3>}
// CHECK-DAG: %[[W:.+]] = mpc.expand %[[K]]
// CHECK: mpc.matmul %[[X]], %[[W]]
// GPU-LABEL: func.func @generated
// GPU-NOT: movement
// GPU: return
func.func @generated(%q: tensor<2x8x32xbf16>, %k: tensor<2x8x16xbf16>) -> tensor<2x2x8x8xf32> {
  %0 = mpc.reshape %q : (tensor<2x8x32xbf16>) -> tensor<2x8x2x16xbf16>
  %1 = mpc.region movement (%0) {kernel = "q"} : (tensor<2x8x2x16xbf16>) -> tensor<2x2x8x16xbf16> {
  ^bb0(%x: tensor<2x8x2x16xbf16>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x2x16xbf16>) -> tensor<2x2x8x16xbf16>
    mpc.yield %y : tensor<2x2x8x16xbf16>
  }
  %2 = mpc.reshape %k : (tensor<2x8x16xbf16>) -> tensor<2x1x8x16xbf16>
  %3 = mpc.region movement (%2) {kernel = "k"} : (tensor<2x1x8x16xbf16>) -> tensor<2x2x8x16xbf16> {
  ^bb0(%x: tensor<2x1x8x16xbf16>):
    %y = mpc.expand %x : (tensor<2x1x8x16xbf16>) -> tensor<2x2x8x16xbf16>
    mpc.yield %y : tensor<2x2x8x16xbf16>
  }
  %4 = mpc.region contraction (%1, %3) {kernel = "s", provider = #mpc.provider<generated>} : (tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>) -> tensor<2x2x8x8xf32> {
  ^bb0(%x: tensor<2x2x8x16xbf16>, %w: tensor<2x2x8x16xbf16>):
    %y = mpc.matmul %x, %w {transB = true} : (tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>) -> tensor<2x2x8x8xf32>
    mpc.yield %y : tensor<2x2x8x8xf32>
  }
  return %4 : tensor<2x2x8x8xf32>
}

// Samples that share weights are one matrix and stay, behind tokens. On Tensor
// Cores, rows that begin inside a vector stay too.
// CHECK-LABEL: func.func @apart
// CHECK: mpc.region movement(%arg0)
// CHECK: mpc.region contraction(%{{.+}}, %arg1)
// CHECK-NOT: movement
// CHECK: mpc.region contraction(%arg2, %arg3)
// GPU-LABEL: func.func @apart
// GPU-COUNT-2: mpc.region movement
func.func @apart(%x: tensor<8x2x16xbf16>, %w: tensor<16x8xbf16>, %y: tensor<8x17xbf16>, %z: tensor<16x8xbf16>) -> (tensor<2x8x8xf32>, tensor<8x8xf32>) {
  %0 = mpc.region movement (%x) {kernel = "t"} : (tensor<8x2x16xbf16>) -> tensor<2x8x16xbf16> {
  ^bb0(%a: tensor<8x2x16xbf16>):
    %b = mpc.transpose %a {perm = array<i64: 1, 0, 2>} : (tensor<8x2x16xbf16>) -> tensor<2x8x16xbf16>
    mpc.yield %b : tensor<2x8x16xbf16>
  }
  %1 = mpc.region contraction (%0, %w) {kernel = "s", provider = #mpc.provider<generated>} : (tensor<2x8x16xbf16>, tensor<16x8xbf16>) -> tensor<2x8x8xf32> {
  ^bb0(%a: tensor<2x8x16xbf16>, %b: tensor<16x8xbf16>):
    %c = mpc.matmul %a, %b : (tensor<2x8x16xbf16>, tensor<16x8xbf16>) -> tensor<2x8x8xf32>
    mpc.yield %c : tensor<2x8x8xf32>
  }
  %2 = mpc.region movement (%y) {kernel = "p"} : (tensor<8x17xbf16>) -> tensor<8x16xbf16> {
  ^bb0(%a: tensor<8x17xbf16>):
    %b = mpc.slice %a {offsets = array<i64: 0, 1>, sizes = array<i64: 8, 16>} : (tensor<8x17xbf16>) -> tensor<8x16xbf16>
    mpc.yield %b : tensor<8x16xbf16>
  }
  %3 = mpc.region contraction (%2, %z) {kernel = "u", provider = #mpc.provider<generated>} : (tensor<8x16xbf16>, tensor<16x8xbf16>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x16xbf16>, %b: tensor<16x8xbf16>):
    %c = mpc.matmul %a, %b : (tensor<8x16xbf16>, tensor<16x8xbf16>) -> tensor<8x8xf32>
    mpc.yield %c : tensor<8x8xf32>
  }
  return %1, %3 : tensor<2x8x8xf32>, tensor<8x8xf32>
}
