// RUN: mpc-opt %s --mpc-decompose-attention | FileCheck %s --implicit-check-not=mpc.attention

// The factors are low precision, and all ops between the products are in f32.
// CHECK-LABEL: func.func @plain
func.func @plain(%q: tensor<2x8x4xbf16>, %k: tensor<2x8x4xbf16>, %v: tensor<2x8x4xbf16>) -> tensor<2x8x4xbf16> {
  // CHECK: %[[S:.*]] = mpc.matmul %arg0, %arg1 {alpha = 5.000000e-01 : f64, transB = true} : {{.*}} -> tensor<2x8x8xf32>
  // CHECK: %[[P:.*]] = mpc.softmax %[[S]] {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xbf16>
  // CHECK: %[[Y:.*]] = mpc.matmul %[[P]], %arg2 : {{.*}} -> tensor<2x8x4xbf16>
  // CHECK: return %[[Y]]
  %y = mpc.attention %q, %k, %v {scale = 5.0e-1 : f64} : (tensor<2x8x4xbf16>, tensor<2x8x4xbf16>, tensor<2x8x4xbf16>) -> tensor<2x8x4xbf16>
  return %y : tensor<2x8x4xbf16>
}

// Cap, bias, masks, guard and dropout, in that order.
// CHECK-LABEL: func.func @all
func.func @all(%q: tensor<2x8x4xf32>, %k: tensor<2x9x4xf32>, %v: tensor<2x9x3xf32>, %bias: tensor<8x9xf32>, %mask: tensor<2x1x9xi1>, %seed: tensor<i64>, %step: tensor<i64>) -> tensor<2x8x3xf32> {
  // CHECK: %[[S:.*]] = mpc.matmul %arg0, %arg1 {alpha = 2.500000e-01 : f64, transB = true}
  // CHECK: %[[T:.*]] = mpc.tanh %[[S]]
  // CHECK: %[[CAP:.*]] = mpc.constant dense<2.000000e+00>
  // CHECK: %[[C:.*]] = mpc.mul %[[T]], %[[CAP]]
  // CHECK: %[[B:.*]] = mpc.add %[[C]], %arg3
  // CHECK: %[[KEYS:.*]] = mpc.constant dense<{{.*}}[0, 1, 2, 3, 4, 5, 6, 7, 8]{{.*}}> : tensor<1x1x9xi64>
  // CHECK: %[[LAST:.*]] = mpc.constant dense<{{.*}}[1], [2], {{.*}}[8]{{.*}}> : tensor<1x8x1xi64>
  // CHECK: %[[CAUSAL:.*]] = mpc.less_or_equal %[[KEYS]], %[[LAST]]
  // CHECK: %[[SEEN:.*]] = mpc.and %arg4, %[[CAUSAL]]
  // CHECK: %[[HIDDEN:.*]] = mpc.constant dense<0xFF800000>
  // CHECK: %[[M:.*]] = mpc.select %[[SEEN]], %[[B]], %[[HIDDEN]]
  // CHECK: %[[P:.*]] = mpc.softmax %[[M]]
  // CHECK: %[[NAN:.*]] = mpc.is_nan %[[P]]
  // CHECK: %[[G:.*]] = mpc.select %[[NAN]], %{{.*}}, %[[P]]
  // CHECK: %[[D:.*]] = mpc.dropout %[[G]], %arg5, %arg6 {id = 3 : i64, ratio = 1.000000e-01 : f64}
  // CHECK: mpc.matmul %[[D]], %arg2
  %y = mpc.attention %q, %k, %v bias %bias mask %mask random %seed, %step
      {scale = 5.0e-1 : f64, softcap = 2.0 : f64, causal_offset = 1 : i64, zero_empty_rows, dropout = 1.0e-1 : f64, dropout_id = 3 : i64}
      : (tensor<2x8x4xf32>, tensor<2x9x4xf32>, tensor<2x9x3xf32>, tensor<8x9xf32>, tensor<2x1x9xi1>, tensor<i64>, tensor<i64>) -> tensor<2x8x3xf32>
  return %y : tensor<2x8x3xf32>
}

// The gradient reads the softmax of its attention.
// CHECK-LABEL: func.func @gradient
// CHECK: %[[P:.*]] = mpc.softmax
// CHECK-NOT: mpc.softmax %
// CHECK: %[[DV:.*]] = mpc.matmul %[[P]], %arg3 {transA = true} : {{.*}} -> tensor<2x8x4xf32>
// CHECK: %[[G:.*]] = mpc.matmul %arg3, %arg2 {transB = true} : {{.*}} -> tensor<2x8x8xf32>
// CHECK: %[[D:.*]] = mpc.softmax_grad %[[G]], %[[P]]
// CHECK: %[[LOW:.*]] = amp.cast %[[D]] : {{.*}}bf16
// CHECK: %[[DQ:.*]] = mpc.matmul %[[LOW]], %arg1 {alpha = 5.000000e-01 : f64} : {{.*}} -> tensor<2x8x4xf32>
// CHECK: %[[DK:.*]] = mpc.matmul %[[LOW]], %arg0 {alpha = 5.000000e-01 : f64, transA = true} : {{.*}} -> tensor<2x8x4xf32>
// CHECK: return %{{.*}}, %[[DQ]], %[[DK]], %[[DV]]
func.func @gradient(%q: tensor<2x8x4xbf16>, %k: tensor<2x8x4xbf16>, %v: tensor<2x8x4xbf16>, %dy: tensor<2x8x4xbf16>) -> (tensor<2x8x4xbf16>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>) {
  %y = mpc.attention %q, %k, %v {scale = 5.0e-1 : f64} : (tensor<2x8x4xbf16>, tensor<2x8x4xbf16>, tensor<2x8x4xbf16>) -> tensor<2x8x4xbf16>
  %dq, %dk, %dv = mpc.attention_grad %dy, %q, %k, %v {scale = 5.0e-1 : f64}
      : (tensor<2x8x4xbf16>, tensor<2x8x4xbf16>, tensor<2x8x4xbf16>, tensor<2x8x4xbf16>) -> (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>)
  return %y, %dq, %dk, %dv : tensor<2x8x4xbf16>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>
}

// Without its attention, the gradient computes the softmax, and sums over broadcast axes. Unused
// results are left out. Scores hidden by a finite number have no gradient.
// CHECK-LABEL: func.func @shared_keys
// CHECK: mpc.softmax
// CHECK: mpc.softmax_grad
// CHECK: %[[D:.*]] = mpc.select %arg5
// CHECK: %[[DB:.*]] = mpc.reduce_sum %[[D]] {axes = array<i64: 0, 1>
// CHECK: %[[DK:.*]] = mpc.matmul %[[D]], %arg1 {transA = true} : {{.*}} -> tensor<2x3x8x4xf32>
// CHECK: mpc.reduce_sum %[[DK]] {axes = array<i64: 1>, keepdims = true} : {{.*}} -> tensor<2x1x8x4xf32>
// CHECK-NOT: mpc.matmul
func.func @shared_keys(%dy: tensor<2x3x8x4xf32>, %q: tensor<2x3x8x4xf32>, %k: tensor<2x1x8x4xf32>, %v: tensor<2x1x8x4xf32>, %bias: tensor<8x8xf32>, %mask: tensor<8xi1>) -> (tensor<2x1x8x4xf32>, tensor<8x8xf32>) {
  %dq, %dk, %dv, %db = mpc.attention_grad %dy, %q, %k, %v bias %bias mask %mask {hidden = -1.0e4 : f64}
      : (tensor<2x3x8x4xf32>, tensor<2x3x8x4xf32>, tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>, tensor<8x8xf32>, tensor<8xi1>)
     -> (tensor<2x3x8x4xf32>, tensor<2x1x8x4xf32>, tensor<2x1x8x4xf32>, tensor<8x8xf32>)
  return %dk, %db : tensor<2x1x8x4xf32>, tensor<8x8xf32>
}

// If two attentions read the same tensors, each gradient reads its own softmax.
// CHECK-LABEL: func.func @two
// CHECK: %[[ALL:.*]] = mpc.softmax
// CHECK: %[[PAST:.*]] = mpc.softmax
// CHECK: mpc.softmax_grad %{{.*}}, %[[PAST]]
// CHECK: mpc.softmax_grad %{{.*}}, %[[ALL]]
func.func @two(%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>, %dy: tensor<2x8x4xf32>) -> (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>) {
  %y0 = mpc.attention %q, %k, %v : (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %y1 = mpc.attention %q, %k, %v {causal_offset = 0 : i64} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %dq1, %dk1, %dv1 = mpc.attention_grad %dy, %q, %k, %v {causal_offset = 0 : i64}
      : (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>)
  %dq0, %dk0, %dv0 = mpc.attention_grad %dy, %q, %k, %v
      : (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>)
  return %y0, %y1, %dq0, %dq1 : tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>
}

// Each bias is added. Its gradient sums the scores' gradient over the broadcast axes.
// CHECK-LABEL: func.func @two_biases
// CHECK: %[[S:.*]] = mpc.matmul %arg1, %arg2
// CHECK: %[[A:.*]] = mpc.add %[[S]], %arg4
// CHECK: mpc.add %[[A]], %arg5
// CHECK: %[[D:.*]] = mpc.softmax_grad
// CHECK: mpc.reduce_sum %[[D]] {axes = array<i64: 0>
// CHECK: mpc.reduce_sum %[[D]] {axes = array<i64: 1>
func.func @two_biases(%dy: tensor<5x2x4xf32>, %q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>, %positions: tensor<1x2x3xf32>, %mask: tensor<5x1x3xf32>) -> (tensor<1x2x3xf32>, tensor<5x1x3xf32>) {
  %dq, %dk, %dv, %db0, %db1 = mpc.attention_grad %dy, %q, %k, %v bias %positions, %mask
      : (tensor<5x2x4xf32>, tensor<5x2x4xf32>, tensor<5x3x4xf32>, tensor<5x3x4xf32>, tensor<1x2x3xf32>, tensor<5x1x3xf32>)
     -> (tensor<5x2x4xf32>, tensor<5x3x4xf32>, tensor<5x3x4xf32>, tensor<1x2x3xf32>, tensor<5x1x3xf32>)
  return %db0, %db1 : tensor<1x2x3xf32>, tensor<5x1x3xf32>
}
