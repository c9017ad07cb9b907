// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(plan-fold-movement))" | FileCheck %s

// Values that products of a GPU's library read or write in place.

// With tokens before samples, all heads of all samples are 16 elements apart:
// one call of the library covers them.
// CHECK-LABEL: func.func @one_call
// CHECK-NOT: movement
// CHECK: %[[Q:.+]] = plan.access %arg0 {offset = 0 : i64, strides = array<i64: 16, 64, 1>} : tensor<8x4x16xf32> to tensor<4x8x16xf32>
// CHECK: %[[Y:.+]] = mpc.matmul %[[Q]], %arg1
// CHECK: %[[T:.+]] = plan.arrange %[[Y]] {perm = array<i64: 1, 0, 2>}
// CHECK: return %[[T]]
func.func @one_call(%q: tensor<8x4x16xf32>, %k: tensor<4x16x16xf32>) -> tensor<8x4x16xf32> {
  %0 = mpc.region movement (%q) {kernel = "q"} : (tensor<8x4x16xf32>) -> tensor<4x8x16xf32> {
  ^bb0(%x: tensor<8x4x16xf32>):
    %y = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<8x4x16xf32>) -> tensor<4x8x16xf32>
    mpc.yield %y : tensor<4x8x16xf32>
  }
  %1 = mpc.matmul %0, %k : (tensor<4x8x16xf32>, tensor<4x16x16xf32>) -> tensor<4x8x16xf32>
  %2 = mpc.region movement (%1) {kernel = "y"} : (tensor<4x8x16xf32>) -> tensor<8x4x16xf32> {
  ^bb0(%x: tensor<4x8x16xf32>):
    %y = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<4x8x16xf32>) -> tensor<8x4x16xf32>
    mpc.yield %y : tensor<8x4x16xf32>
  }
  return %2 : tensor<8x4x16xf32>
}

// Four heads of queries read one head of keys: the library multiplies all their
// rows by it, without copies of the keys.
// CHECK-LABEL: func.func @shared_heads
// CHECK: %[[K:.+]] = plan.access %arg1 {offset = 0 : i64, strides = array<i64: 512, 0, 16, 1>} : tensor<2x1x32x16xf32> to tensor<2x4x32x16xf32>
// CHECK: mpc.matmul %arg0, %[[K]]
// CHECK-NOT: mpc.expand
// CHECK: return
func.func @shared_heads(%q: tensor<2x4x32x16xf32>, %k: tensor<2x1x32x16xf32>) -> tensor<2x4x32x32xf32> {
  %0 = mpc.region pointwise (%k) {kernel = "k"} : (tensor<2x1x32x16xf32>) -> tensor<2x4x32x16xf32> {
  ^bb0(%x: tensor<2x1x32x16xf32>):
    %y = mpc.expand %x : (tensor<2x1x32x16xf32>) -> tensor<2x4x32x16xf32>
    mpc.yield %y : tensor<2x4x32x16xf32>
  }
  %1 = mpc.matmul %q, %0 {transB = true} : (tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>) -> tensor<2x4x32x32xf32>
  return %1 : tensor<2x4x32x32xf32>
}

// With samples before tokens, each sample needs a call. Two calls cost less
// than two transposes and one call.
// CHECK-LABEL: func.func @two_samples
// CHECK-COUNT-2: plan.access
// CHECK: mpc.matmul
// CHECK-NOT: movement
// CHECK: return
func.func @two_samples(%q: tensor<2x512x12x64xf32>, %k: tensor<2x512x12x64xf32>) -> tensor<2x12x512x512xf32> {
  %0 = mpc.region movement (%q) {kernel = "q"} : (tensor<2x512x12x64xf32>) -> tensor<2x12x512x64xf32> {
  ^bb0(%x: tensor<2x512x12x64xf32>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x512x12x64xf32>) -> tensor<2x12x512x64xf32>
    mpc.yield %y : tensor<2x12x512x64xf32>
  }
  %1 = mpc.region movement (%k) {kernel = "k"} : (tensor<2x512x12x64xf32>) -> tensor<2x12x512x64xf32> {
  ^bb0(%x: tensor<2x512x12x64xf32>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x512x12x64xf32>) -> tensor<2x12x512x64xf32>
    mpc.yield %y : tensor<2x12x512x64xf32>
  }
  %2 = mpc.matmul %0, %1 {transB = true} : (tensor<2x12x512x64xf32>, tensor<2x12x512x64xf32>) -> tensor<2x12x512x512xf32>
  return %2 : tensor<2x12x512x512xf32>
}

// Eight calls cost more than the transposes.
// CHECK-LABEL: func.func @eight_samples
// CHECK: mpc.region movement
// CHECK: mpc.matmul
// CHECK-NOT: plan.arrange
// CHECK: mpc.region movement
// CHECK: return
func.func @eight_samples(%v: tensor<8x128x12x64xbf16>, %p: tensor<8x12x128x128xbf16>) -> tensor<8x128x12x64xbf16> {
  %0 = mpc.region movement (%v) {kernel = "v"} : (tensor<8x128x12x64xbf16>) -> tensor<8x12x128x64xbf16> {
  ^bb0(%x: tensor<8x128x12x64xbf16>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<8x128x12x64xbf16>) -> tensor<8x12x128x64xbf16>
    mpc.yield %y : tensor<8x12x128x64xbf16>
  }
  %1 = mpc.matmul %p, %0 : (tensor<8x12x128x128xbf16>, tensor<8x12x128x64xbf16>) -> tensor<8x12x128x64xbf16>
  %2 = mpc.region movement (%1) {kernel = "y"} : (tensor<8x12x128x64xbf16>) -> tensor<8x128x12x64xbf16> {
  ^bb0(%x: tensor<8x12x128x64xbf16>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<8x12x128x64xbf16>) -> tensor<8x128x12x64xbf16>
    mpc.yield %y : tensor<8x128x12x64xbf16>
  }
  return %2 : tensor<8x128x12x64xbf16>
}

// One product of many rows does not become many products of few rows. Rows at
// odd multiples of 4 bytes are moved to vector boundaries.
// CHECK-LABEL: func.func @moved
// CHECK-COUNT-2: mpc.region movement
// CHECK-NOT: plan.access
// CHECK: return
func.func @moved(%x: tensor<32x4x16xf32>, %w: tensor<16x16xf32>, %o: tensor<4x8x12xbf16>, %u: tensor<4x8x8xbf16>)
    -> (tensor<4x32x16xf32>, tensor<4x8x8xbf16>) {
  %0 = mpc.region movement (%x) {kernel = "x"} : (tensor<32x4x16xf32>) -> tensor<4x32x16xf32> {
  ^bb0(%p: tensor<32x4x16xf32>):
    %y = mpc.transpose %p {perm = array<i64: 1, 0, 2>} : (tensor<32x4x16xf32>) -> tensor<4x32x16xf32>
    mpc.yield %y : tensor<4x32x16xf32>
  }
  %1 = mpc.matmul %0, %w : (tensor<4x32x16xf32>, tensor<16x16xf32>) -> tensor<4x32x16xf32>
  %2 = mpc.region movement (%o) {kernel = "o"} : (tensor<4x8x12xbf16>) -> tensor<4x8x8xbf16> {
  ^bb0(%p: tensor<4x8x12xbf16>):
    %y = mpc.slice %p {offsets = array<i64: 0, 0, 2>, sizes = array<i64: 4, 8, 8>} : (tensor<4x8x12xbf16>) -> tensor<4x8x8xbf16>
    mpc.yield %y : tensor<4x8x8xbf16>
  }
  %3 = mpc.matmul %2, %u : (tensor<4x8x8xbf16>, tensor<4x8x8xbf16>) -> tensor<4x8x8xbf16>
  return %1, %3 : tensor<4x32x16xf32>, tensor<4x8x8xbf16>
}

// The kernel that transposes an image also rounds it.
// CHECK-LABEL: func.func @image
// CHECK-NOT: pointwise
// CHECK: mpc.region movement(%arg0) {kernel = "turn"} : (tensor<2x3x4x4xf32>) -> tensor<2x4x4x3xbf16>
// CHECK: mpc.transpose %{{.*}} : (tensor<2x3x4x4xf32>) -> tensor<2x4x4x3xbf16>
func.func @image(%x: tensor<2x3x4x4xf32>) -> tensor<2x4x4x3xbf16> {
  %0 = mpc.region pointwise (%x) {kernel = "round"} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xbf16> {
  ^bb0(%a: tensor<2x3x4x4xf32>):
    %b = amp.cast %a : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xbf16>
    mpc.yield %b : tensor<2x3x4x4xbf16>
  }
  %1 = mpc.region movement (%0) {kernel = "turn"} : (tensor<2x3x4x4xbf16>) -> tensor<2x4x4x3xbf16> {
  ^bb0(%a: tensor<2x3x4x4xbf16>):
    %b = mpc.transpose %a {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x3x4x4xbf16>) -> tensor<2x4x4x3xbf16>
    mpc.yield %b : tensor<2x4x4x3xbf16>
  }
  return %1 : tensor<2x4x4x3xbf16>
}

// A value with other users is rounded once for all.
// CHECK-LABEL: func.func @shared
// CHECK: mpc.region pointwise(%arg0)
// CHECK: mpc.region movement({{.*}}) {kernel = "turn"} : (tensor<2x3x4x4xbf16>) -> tensor<2x4x4x3xbf16>
func.func @shared(%x: tensor<2x3x4x4xf32>) -> (tensor<2x4x4x3xbf16>, tensor<2x3x4x4xbf16>) {
  %0 = mpc.region pointwise (%x) {kernel = "round"} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xbf16> {
  ^bb0(%a: tensor<2x3x4x4xf32>):
    %b = amp.cast %a : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xbf16>
    mpc.yield %b : tensor<2x3x4x4xbf16>
  }
  %1 = mpc.region movement (%0) {kernel = "turn"} : (tensor<2x3x4x4xbf16>) -> tensor<2x4x4x3xbf16> {
  ^bb0(%a: tensor<2x3x4x4xbf16>):
    %b = mpc.transpose %a {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x3x4x4xbf16>) -> tensor<2x4x4x3xbf16>
    mpc.yield %b : tensor<2x4x4x3xbf16>
  }
  return %1, %0 : tensor<2x4x4x3xbf16>, tensor<2x3x4x4xbf16>
}

// Heads of keys of many samples are transposed and then copied for heads of
// queries. Reading them before the transpose would need a call per sample, but
// reading the transposed keys needs no extra calls. The copy is deleted.
// CHECK-LABEL: func.func @nearer_source
// CHECK: %[[T:.+]] = mpc.region movement(%arg1) {kernel = "turn"}
// CHECK: %[[V:.+]] = mpc.reshape %[[T]]
// CHECK-NOT: mpc.expand
// CHECK: %[[K:.+]] = plan.access %[[V]] {offset = 0 : i64, strides = array<i64: 32768, 2048, 0, 16, 1>} : tensor<16x16x1x128x16xbf16> to tensor<16x16x2x128x16xbf16>
// CHECK: mpc.matmul %arg0, %[[K]]
// CHECK: return
func.func @nearer_source(%q: tensor<16x16x2x128x16xbf16>, %k: tensor<16x128x16x16xbf16>) -> tensor<16x16x2x128x128xbf16> {
  %0 = mpc.region movement (%k) {kernel = "turn"} : (tensor<16x128x16x16xbf16>) -> tensor<16x16x128x16xbf16> {
  ^bb0(%x: tensor<16x128x16x16xbf16>):
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<16x128x16x16xbf16>) -> tensor<16x16x128x16xbf16>
    mpc.yield %y : tensor<16x16x128x16xbf16>
  }
  %v = mpc.reshape %0 : (tensor<16x16x128x16xbf16>) -> tensor<16x16x1x128x16xbf16>
  %1 = mpc.region pointwise (%v) {kernel = "copy"} : (tensor<16x16x1x128x16xbf16>) -> tensor<16x16x2x128x16xbf16> {
  ^bb0(%x: tensor<16x16x1x128x16xbf16>):
    %y = mpc.expand %x : (tensor<16x16x1x128x16xbf16>) -> tensor<16x16x2x128x16xbf16>
    mpc.yield %y : tensor<16x16x2x128x16xbf16>
  }
  %2 = mpc.matmul %q, %1 {transB = true} : (tensor<16x16x2x128x16xbf16>, tensor<16x16x2x128x16xbf16>) -> tensor<16x16x2x128x128xbf16>
  return %2 : tensor<16x16x2x128x128xbf16>
}
