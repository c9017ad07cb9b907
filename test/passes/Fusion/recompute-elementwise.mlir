// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recompute-elementwise))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recompute-elementwise,mpc-form-regions,cse))" | FileCheck %s --check-prefix=REGION

// The variance and the normalised result each recompute the centred values from
// the activations.
// CHECK-LABEL: func.func @centred
// CHECK-SAME: (%[[X:.*]]: tensor<512x16xf32>, %[[M:.*]]: tensor<16xf32>)
func.func @centred(%x: tensor<512x16xf32>, %m: tensor<16xf32>) -> tensor<512x16xf32> {
  // CHECK: %[[A:.*]] = mpc.sub %[[X]], %[[M]]
  // CHECK: %[[SQ:.*]] = mpc.mul %[[A]], %{{.*}}
  // CHECK: mpc.reduce_sum %[[SQ]]
  // CHECK: %[[B:.*]] = mpc.sub %[[X]], %[[M]]
  // CHECK: mpc.mul %[[B]]
  %c = mpc.sub %x, %m : (tensor<512x16xf32>, tensor<16xf32>) -> tensor<512x16xf32>
  %sq = mpc.mul %c, %c : (tensor<512x16xf32>, tensor<512x16xf32>) -> tensor<512x16xf32>
  %v = mpc.reduce_sum %sq {axes = array<i64: 0>, keepdims = true} : (tensor<512x16xf32>) -> tensor<1x16xf32>
  %y = mpc.mul %c, %v : (tensor<512x16xf32>, tensor<1x16xf32>) -> tensor<512x16xf32>
  return %y : tensor<512x16xf32>
}

// A product's epilogue stores the activation's input. The epilogue that
// computes its gradient recomputes the rest, as part of the backward pass.
// CHECK-LABEL: func.func @swish
// REGION-LABEL: func.func @swish
func.func @swish(%x: tensor<64x32xbf16>, %w: tensor<32x32xbf16>, %b: tensor<32xf32>) -> tensor<64x32xbf16> {
  // CHECK: %[[H:.*]] = mpc.add
  // CHECK: %[[K:.*]] = mpc.kept %[[H]] : tensor<64x32xbf16>
  // CHECK: %[[S:.*]] = mpc.sigmoid %[[H]]
  // CHECK: mpc.mul %[[H]], %[[S]]
  // CHECK: %[[AGAIN:.*]] = mpc.sigmoid %[[K]] {mpc.phase = #mpc.phase<backward>} : (tensor<64x32xbf16>) -> tensor<64x32xbf16>
  // CHECK: mpc.mul %{{.*}}, %[[AGAIN]]
  // CHECK: mpc.mul %{{.*}}, %[[K]]
  // CHECK: mpc.sigmoid_grad %{{.*}}, %[[AGAIN]]

  // REGION: %[[F:.*]]:2 = mpc.region contraction
  // REGION: mpc.sigmoid
  // REGION: mpc.yield
  // REGION: %[[Z:.*]] = mpc.region contraction(%[[F]]#{{[01]}}, %{{.*}})
  // REGION: mpc.region contraction(%[[Z]], %{{[^,]*}}, %[[F]]#{{[01]}})
  // REGION: mpc.sigmoid
  // REGION-NOT: mpc.kept
  %m = mpc.matmul %x, %w : (tensor<64x32xbf16>, tensor<32x32xbf16>) -> tensor<64x32xf32>
  %h = mpc.add %m, %b : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xbf16>
  %s = mpc.sigmoid %h : (tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %y = mpc.mul %h, %s : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %z = mpc.matmul %y, %w : (tensor<64x32xbf16>, tensor<32x32xbf16>) -> tensor<64x32xbf16>
  %g = mpc.matmul %z, %w {mpc.phase = #mpc.phase<backward>, transB = true} : (tensor<64x32xbf16>, tensor<32x32xbf16>) -> tensor<64x32xf32>
  %d0 = mpc.mul %g, %s {mpc.phase = #mpc.phase<backward>} : (tensor<64x32xf32>, tensor<64x32xbf16>) -> tensor<64x32xf32>
  %ds = mpc.mul %g, %h {mpc.phase = #mpc.phase<backward>} : (tensor<64x32xf32>, tensor<64x32xbf16>) -> tensor<64x32xf32>
  %d1 = mpc.sigmoid_grad %ds, %s {mpc.phase = #mpc.phase<backward>} : (tensor<64x32xf32>, tensor<64x32xbf16>) -> tensor<64x32xf32>
  %dh = mpc.add %d0, %d1 {mpc.phase = #mpc.phase<backward>} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xbf16>
  return %dh : tensor<64x32xbf16>
}

// A value that a contraction reads is in memory anyway.
// CHECK-LABEL: func.func @stored
func.func @stored(%x: tensor<512x16xf32>, %w: tensor<16x16xf32>) -> (tensor<512x16xf32>, tensor<1x16xf32>) {
  // CHECK: mpc.neg
  // CHECK-NOT: mpc.neg
  // CHECK: return
  %n = mpc.neg %x : (tensor<512x16xf32>) -> tensor<512x16xf32>
  %p = mpc.matmul %n, %w : (tensor<512x16xf32>, tensor<16x16xf32>) -> tensor<512x16xf32>
  %v = mpc.reduce_sum %n {axes = array<i64: 0>, keepdims = true} : (tensor<512x16xf32>) -> tensor<1x16xf32>
  return %p, %v : tensor<512x16xf32>, tensor<1x16xf32>
}

// A value of two full tensors is stored. An exponential of one tensor is recomputed.
// CHECK-LABEL: func.func @costly
func.func @costly(%x: tensor<512x16xf32>, %z: tensor<512x16xf32>) -> (tensor<512x16xf32>, tensor<512x16xf32>) {
  // CHECK: mpc.add
  // CHECK-NOT: mpc.add
  // CHECK: mpc.exp
  // CHECK: mpc.exp
  // CHECK: return
  %a = mpc.add %x, %z : (tensor<512x16xf32>, tensor<512x16xf32>) -> tensor<512x16xf32>
  %s = mpc.reduce_sum %a {axes = array<i64: 0>, keepdims = true} : (tensor<512x16xf32>) -> tensor<1x16xf32>
  %y = mpc.mul %a, %s : (tensor<512x16xf32>, tensor<1x16xf32>) -> tensor<512x16xf32>
  %e = mpc.exp %x : (tensor<512x16xf32>) -> tensor<512x16xf32>
  %t = mpc.reduce_sum %e {axes = array<i64: 0>, keepdims = true} : (tensor<512x16xf32>) -> tensor<1x16xf32>
  %u = mpc.mul %e, %t : (tensor<512x16xf32>, tensor<1x16xf32>) -> tensor<512x16xf32>
  return %y, %u : tensor<512x16xf32>, tensor<512x16xf32>
}
