// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recompute-elementwise))" | FileCheck %s

// Centred activations: the variance and the normalised result each take them
// from the activations.
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

// Two full tensors instead of one, or an exponential: stored.
// CHECK-LABEL: func.func @costly
func.func @costly(%x: tensor<512x16xf32>, %z: tensor<512x16xf32>) -> (tensor<512x16xf32>, tensor<512x16xf32>) {
  // CHECK: mpc.add
  // CHECK-NOT: mpc.add
  // CHECK: mpc.exp
  // CHECK-NOT: mpc.exp
  // CHECK: return
  %a = mpc.add %x, %z : (tensor<512x16xf32>, tensor<512x16xf32>) -> tensor<512x16xf32>
  %s = mpc.reduce_sum %a {axes = array<i64: 0>, keepdims = true} : (tensor<512x16xf32>) -> tensor<1x16xf32>
  %y = mpc.mul %a, %s : (tensor<512x16xf32>, tensor<1x16xf32>) -> tensor<512x16xf32>
  %e = mpc.exp %x : (tensor<512x16xf32>) -> tensor<512x16xf32>
  %t = mpc.reduce_sum %e {axes = array<i64: 0>, keepdims = true} : (tensor<512x16xf32>) -> tensor<1x16xf32>
  %u = mpc.mul %e, %t : (tensor<512x16xf32>, tensor<1x16xf32>) -> tensor<512x16xf32>
  return %y, %u : tensor<512x16xf32>, tensor<512x16xf32>
}
