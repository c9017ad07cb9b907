// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-form-regions))" | FileCheck %s

// Bias and activation follow the contraction in its kernel, and so does the
// cast that the next contraction reads.
// CHECK-LABEL: func.func @tail
func.func @tail(%x: tensor<32x64xbf16>, %w: tensor<16x64xbf16>, %b: tensor<16xf32>) -> (tensor<32x16xf32>, tensor<32x16xbf16>) {
  // CHECK: mpc.region contraction(%{{.*}}, %{{.*}}, %{{.*}}) {kernel = "tail_0_matmul"}
  // CHECK: mpc.matmul
  // CHECK: mpc.add
  // CHECK: mpc.relu
  // CHECK: amp.cast
  // CHECK-NOT: mpc.region
  // CHECK: return
  %0 = mpc.matmul %x, %w {transB = true} : (tensor<32x64xbf16>, tensor<16x64xbf16>) -> tensor<32x16xf32>
  %1 = mpc.add %0, %b : (tensor<32x16xf32>, tensor<16xf32>) -> tensor<32x16xf32>
  %2 = mpc.relu %1 : (tensor<32x16xf32>) -> tensor<32x16xf32>
  %3 = amp.cast %2 : (tensor<32x16xf32>) -> tensor<32x16xbf16>
  return %2, %3 : tensor<32x16xf32>, tensor<32x16xbf16>
}

// Values that the contraction reads are in memory anyway, constants included.
// CHECK-LABEL: func.func @prologue
func.func @prologue(%x: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
  // CHECK: %[[ONES:.*]] = mpc.constant
  // CHECK: %[[SQUARE:.*]] = mpc.region pointwise
  // CHECK: mpc.mul
  // CHECK: mpc.region contraction(%[[SQUARE]], %[[ONES]])
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<16x16xf32>, %[[B:.*]]: tensor<16x16xf32>)
  // CHECK-NEXT: mpc.matmul %[[A]], %[[B]]
  // CHECK-NEXT: mpc.add %{{.*}}, %[[A]]
  // CHECK-NEXT: mpc.mul %{{.*}}, %[[B]]
  %ones = mpc.constant dense<1.0> : tensor<16x16xf32>
  %0 = mpc.mul %x, %x : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = mpc.matmul %0, %ones : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = mpc.add %1, %0 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %3 = mpc.mul %2, %ones : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  return %2, %3 : tensor<16x16xf32>, tensor<16x16xf32>
}

// A weight gradient with no other user is fused with the update.
// CHECK-LABEL: func.func @update
func.func @update(%x: tensor<32x64xf32>, %dy: tensor<32x16xf32>, %w: tensor<16x64xf32>, %lr: tensor<f32>) -> tensor<16x64xf32> {
  // CHECK: mpc.region contraction
  // CHECK: mpc.matmul
  // CHECK-NEXT: mpc.sgd
  // CHECK-NEXT: mpc.yield
  %g = mpc.matmul %dy, %x {transA = true} : (tensor<32x16xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  %p = mpc.sgd %w, %g, %lr : (tensor<16x64xf32>, tensor<16x64xf32>, tensor<f32>) -> tensor<16x64xf32>
  return %p : tensor<16x64xf32>
}

// The norm needs the whole gradient first, so the update waits.
// CHECK-LABEL: func.func @clipped
func.func @clipped(%x: tensor<32x64xf32>, %dy: tensor<32x16xf32>, %w: tensor<16x64xf32>, %lr: tensor<f32>) -> tensor<16x64xf32> {
  // CHECK: mpc.region contraction
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: mpc.matmul
  // CHECK-NEXT: mpc.yield
  // CHECK: mpc.region row_reduce
  // CHECK: mpc.mul
  // CHECK: mpc.reduce_sum
  // CHECK: mpc.region pointwise
  // CHECK: mpc.mul
  // CHECK: mpc.sgd
  %g = mpc.matmul %dy, %x {transA = true} : (tensor<32x16xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  %sq = mpc.mul %g, %g : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
  %n = mpc.reduce_sum %sq {axes = array<i64: 0, 1>, keepdims = true} : (tensor<16x64xf32>) -> tensor<1x1xf32>
  %s = mpc.reshape %n : (tensor<1x1xf32>) -> tensor<f32>
  %c = mpc.mul %g, %s : (tensor<16x64xf32>, tensor<f32>) -> tensor<16x64xf32>
  %p = mpc.sgd %w, %c, %lr : (tensor<16x64xf32>, tensor<16x64xf32>, tensor<f32>) -> tensor<16x64xf32>
  return %p : tensor<16x64xf32>
}

// A softmax is one kernel, with the ops before and after it.
// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<32x10xf32>) -> tensor<32x10xbf16> {
  // CHECK: mpc.region row_reduce
  // CHECK: mpc.neg
  // CHECK: mpc.reduce_max
  // CHECK: mpc.reduce_sum
  // CHECK: mpc.div
  // CHECK: amp.cast
  // CHECK-NOT: mpc.region
  // CHECK: return
  %n = mpc.neg %x : (tensor<32x10xf32>) -> tensor<32x10xf32>
  %0 = mpc.reduce_max %n {axes = array<i64: 1>, keepdims = true} : (tensor<32x10xf32>) -> tensor<32x1xf32>
  %1 = mpc.sub %n, %0 : (tensor<32x10xf32>, tensor<32x1xf32>) -> tensor<32x10xf32>
  %2 = mpc.exp %1 : (tensor<32x10xf32>) -> tensor<32x10xf32>
  %3 = mpc.reduce_sum %2 {axes = array<i64: 1>, keepdims = true} : (tensor<32x10xf32>) -> tensor<32x1xf32>
  %4 = mpc.div %2, %3 : (tensor<32x10xf32>, tensor<32x1xf32>) -> tensor<32x10xf32>
  %5 = amp.cast %4 : (tensor<32x10xf32>) -> tensor<32x10xbf16>
  return %5 : tensor<32x10xbf16>
}

// Two reductions over the same columns share a kernel. Their users do not join it.
// CHECK-LABEL: func.func @columns
func.func @columns(%dy: tensor<32x16xf32>, %x: tensor<32x16xf32>) -> (tensor<1x16xf32>, tensor<1x16xf32>) {
  // CHECK: mpc.region column_reduce
  // CHECK: mpc.mul
  // CHECK-COUNT-2: mpc.reduce_sum
  // CHECK-NEXT: mpc.yield
  // CHECK: mpc.region pointwise
  // CHECK: mpc.neg
  %0 = mpc.mul %dy, %x : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<32x16xf32>) -> tensor<1x16xf32>
  %2 = mpc.reduce_sum %dy {axes = array<i64: 0>, keepdims = true} : (tensor<32x16xf32>) -> tensor<1x16xf32>
  %3 = mpc.neg %2 : (tensor<1x16xf32>) -> tensor<1x16xf32>
  return %1, %3 : tensor<1x16xf32>, tensor<1x16xf32>
}

// One pass computes the gradients of both vectors of a BatchNormalization, and
// stores the gradient that it starts from.
// CHECK-LABEL: func.func @one_pass
func.func @one_pass(%dy: tensor<32x16xf32>, %y: tensor<32x16xf32>, %x: tensor<32x16xf32>, %w: tensor<16x16xf32>)
    -> (tensor<1x16xf32>, tensor<1x16xf32>, tensor<32x16xf32>) {
  // CHECK: mpc.region column_reduce
  // CHECK: mpc.relu_grad
  // CHECK: mpc.reduce_sum
  // CHECK: mpc.mul
  // CHECK: mpc.reduce_sum
  // CHECK: mpc.yield %{{.*}}, %{{.*}}, %{{.*}} :
  // CHECK: mpc.region contraction
  // CHECK-NOT: mpc.region
  // CHECK: return
  %g = mpc.relu_grad %dy, %y : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  %0 = mpc.reduce_sum %g {axes = array<i64: 0>, keepdims = true} : (tensor<32x16xf32>) -> tensor<1x16xf32>
  %1 = mpc.mul %g, %x : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  %2 = mpc.reduce_sum %1 {axes = array<i64: 0>, keepdims = true} : (tensor<32x16xf32>) -> tensor<1x16xf32>
  %3 = mpc.matmul %g, %w : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  return %0, %2, %3 : tensor<1x16xf32>, tensor<1x16xf32>, tensor<32x16xf32>
}

// Splat constants move into the kernel, and others are read from memory.
// CHECK-LABEL: func.func @constants
func.func @constants(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: %[[C:.*]] = mpc.constant dense<[1.000000e+00, 2.000000e+00]>
  // CHECK: mpc.region pointwise(%{{.*}}, %[[C]])
  // CHECK: mpc.constant dense<5.000000e-01> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %c = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = mpc.mul %x, %half : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = mpc.add %0, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// Small kernels of one shape share a launch even with no operand in common.
// CHECK-LABEL: func.func @small
func.func @small(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: mpc.region pointwise
  // CHECK-NOT: mpc.region
  // CHECK: return
  %0 = mpc.neg %a : (tensor<8xf32>) -> tensor<8xf32>
  %1 = mpc.exp %b : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// A kernel is named after its hero's node, in characters allowed in symbols.
// CHECK-LABEL: func.func @names
func.func @names(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: kernel = "names_0_layer1_relu_dx"
  %0 = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32> loc("layer1/relu#dx")
  return %0 : tensor<4xf32>
}

// Copies read constants from memory.
// CHECK-LABEL: func.func @padded
// CHECK: %[[ZEROS:.*]] = mpc.constant
// CHECK: mpc.region movement(%[[ZEROS]], %{{.*}})
// CHECK-NOT: mpc.constant
// CHECK: mpc.concat
func.func @padded(%x: tensor<4x8xf32>) -> tensor<5x8xf32> {
  %0 = mpc.constant dense<0.0> : tensor<1x8xf32>
  %1 = mpc.concat %0, %x {axis = 0 : i64} : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<5x8xf32>
  return %1 : tensor<5x8xf32>
}

// The example of compiler/Regions/README.md.
// CHECK-LABEL: func.func @worked_example
// CHECK: mpc.region contraction({{.*}}) {kernel = "worked_example_0_h"}
// CHECK: mpc.matmul
// CHECK-NEXT: mpc.add
// CHECK-NEXT: %[[S:.*]] = mpc.add
// CHECK-NEXT: mpc.yield %[[S]]
// CHECK: mpc.region row_reduce(%{{.*}}) {kernel = "worked_example_1_m"}
// CHECK: mpc.reduce_max
// CHECK-NEXT: mpc.sub
// CHECK-NEXT: %[[E:.*]] = mpc.exp
// CHECK-NEXT: %[[T:.*]] = mpc.reduce_sum
// CHECK-NEXT: mpc.yield %[[E]], %[[T]]
// CHECK: mpc.region pointwise({{.*}}) {kernel = "worked_example_2_g"}
// CHECK: mpc.tanh
// CHECK: mpc.region contraction({{.*}}) {kernel = "worked_example_3_q"}
// CHECK: mpc.div
// CHECK-NEXT: mpc.matmul
// CHECK-NEXT: %[[Z:.*]] = mpc.mul
// CHECK-NEXT: mpc.yield %[[Z]]
func.func @worked_example(%x: tensor<32x64xf32>, %w: tensor<64x64xf32>, %b: tensor<64xf32>, %r: tensor<32x64xf32>)
    -> (tensor<32x64xf32>, tensor<32x64xf32>) {
  %h = mpc.matmul %x, %w : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32> loc("h")
  %a = mpc.add %h, %b : (tensor<32x64xf32>, tensor<64xf32>) -> tensor<32x64xf32> loc("a")
  %s = mpc.add %a, %r : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32> loc("s")
  %m = mpc.reduce_max %s {axes = array<i64: 1>, keepdims = true} : (tensor<32x64xf32>) -> tensor<32x1xf32> loc("m")
  %d = mpc.sub %s, %m : (tensor<32x64xf32>, tensor<32x1xf32>) -> tensor<32x64xf32> loc("d")
  %e = mpc.exp %d : (tensor<32x64xf32>) -> tensor<32x64xf32> loc("e")
  %t = mpc.reduce_sum %e {axes = array<i64: 1>, keepdims = true} : (tensor<32x64xf32>) -> tensor<32x1xf32> loc("t")
  %p = mpc.div %e, %t : (tensor<32x64xf32>, tensor<32x1xf32>) -> tensor<32x64xf32> loc("p")
  %g = mpc.tanh %r : (tensor<32x64xf32>) -> tensor<32x64xf32> loc("g")
  %q = mpc.matmul %g, %w : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32> loc("q")
  %z = mpc.mul %q, %p : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32> loc("z")
  return %s, %z : tensor<32x64xf32>, tensor<32x64xf32>
}
