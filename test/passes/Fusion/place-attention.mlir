// RUN: mpc-opt %s --split-input-file --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(mpc-place-attention))" | FileCheck %s
// RUN: mpc-opt %s --split-input-file --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(mpc-place-attention{attention=products}))" | FileCheck %s --check-prefix=PRODUCTS --implicit-check-not=library_attention
// RUN: mpc-opt %s --split-input-file --pass-pipeline="builtin.module(mpc-attach-target{name=x86-64-v3},func.func(mpc-place-attention))" | FileCheck %s --check-prefix=PRODUCTS --implicit-check-not=library_attention

// The gradient reads the output and the statistics.
// CHECK-LABEL: func.func @training
// CHECK: %[[Y:.*]], %[[S:.*]] = mpc.library_attention %arg0, %arg1, %arg2 {causal_offset = 0 : i64, scale = 2.500000e-01 : f64}
// CHECK-SAME: -> (tensor<2x3x7x16xbf16>, tensor<2x3x7xf32>)
// CHECK: mpc.library_attention_grad %arg3, %arg0, %arg1, %arg2, %[[Y]], %[[S]] {causal_offset = 0 : i64, mpc.phase = #mpc.phase<backward>, scale = 2.500000e-01 : f64}
// CHECK-NOT: mpc.attention
// PRODUCTS-LABEL: func.func @training
// PRODUCTS: mpc.attention %
// PRODUCTS: mpc.attention_grad
func.func @training(%q: tensor<2x3x7x16xbf16>, %k: tensor<2x3x7x16xbf16>, %v: tensor<2x3x7x16xbf16>, %dy: tensor<2x3x7x16xbf16>)
    -> (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>) {
  %y = mpc.attention %q, %k, %v {scale = 2.5e-1 : f64, causal_offset = 0 : i64}
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>) -> tensor<2x3x7x16xbf16>
  %dq, %dk, %dv = mpc.attention_grad %dy, %q, %k, %v {scale = 2.5e-1 : f64, causal_offset = 0 : i64, mpc.phase = #mpc.phase<backward>}
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>)
      -> (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>)
  return %y, %dq, %dk, %dv : tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>
}

// -----

// Four query heads share each of two key heads.
// CHECK-LABEL: func.func @shared
// CHECK: %[[Q:.*]] = mpc.reshape %arg0 : {{.*}} -> tensor<2x8x5x8xf16>
// CHECK: %[[K:.*]] = mpc.reshape %arg1 : {{.*}} -> tensor<2x2x9x8xf16>
// CHECK: %[[V:.*]] = mpc.reshape %arg2 : {{.*}} -> tensor<2x2x9x24xf16>
// CHECK: %[[Y:.*]], %{{.*}} = mpc.library_attention %[[Q]], %[[K]], %[[V]]
// CHECK: mpc.reshape %[[Y]] : (tensor<2x8x5x24xf16>) -> tensor<2x2x4x5x24xf16>
func.func @shared(%q: tensor<2x2x4x5x8xf16>, %k: tensor<2x2x1x9x8xf16>, %v: tensor<2x2x1x9x24xf16>) -> tensor<2x2x4x5x24xf16> {
  %y = mpc.attention %q, %k, %v
      : (tensor<2x2x4x5x8xf16>, tensor<2x2x1x9x8xf16>, tensor<2x2x1x9x24xf16>) -> tensor<2x2x4x5x24xf16>
  return %y : tensor<2x2x4x5x24xf16>
}

// -----

// A bias and a mask become a bias, without the expand over heads. An axis less
// than four is one head.
// CHECK-LABEL: func.func @masked
// CHECK: %[[B:.*]] = mpc.reshape %arg3 : (tensor<2x1x7xf32>) -> tensor<2x1x1x7xf32>
// CHECK: %[[HIDDEN:.*]] = mpc.constant dense<0xFF800000> : tensor<f32>
// CHECK: %[[MASK:.*]] = mpc.reshape %arg4 : (tensor<5x7xi1>) -> tensor<1x1x5x7xi1>
// CHECK: %[[BIAS:.*]] = mpc.select %[[MASK]], %[[B]], %[[HIDDEN]] : {{.*}} -> tensor<2x1x5x7xf32>
// CHECK: mpc.library_attention %{{.*}}, %{{.*}}, %{{.*}} bias %[[BIAS]]
func.func @masked(%q: tensor<2x5x8xbf16>, %k: tensor<2x7x8xbf16>, %v: tensor<2x7x8xbf16>, %bias: tensor<2x1x7xf32>, %mask: tensor<5x7xi1>) -> tensor<2x5x8xbf16> {
  %wide = mpc.expand %bias : (tensor<2x1x7xf32>) -> tensor<2x5x7xf32>
  %y = mpc.attention %q, %k, %v bias %wide mask %mask
      : (tensor<2x5x8xbf16>, tensor<2x7x8xbf16>, tensor<2x7x8xbf16>, tensor<2x5x7xf32>, tensor<5x7xi1>) -> tensor<2x5x8xbf16>
  return %y : tensor<2x5x8xbf16>
}

// -----

// Queries that see no key get zeros, and pass no gradient on.
// CHECK-LABEL: func.func @empty_rows
// CHECK: %[[MOST:.*]] = mpc.reduce_max %arg4 {axes = array<i64: 3>, keepdims = true}
// CHECK: %[[SEEN:.*]] = mpc.less %{{.*}}, %[[MOST]] : {{.*}} -> tensor<2x1x1x1xi1>
// CHECK: %[[BIAS:.*]] = mpc.maximum %arg4, %{{.*}} : {{.*}} -> tensor<2x1x1x7xf32>
// CHECK: %[[Y:.*]], %[[S:.*]] = mpc.library_attention %arg0, %arg1, %arg2 bias %[[BIAS]]
// CHECK: %[[CLEARED:.*]] = mpc.select %[[SEEN]], %[[Y]], %{{.*}}
// CHECK: %[[DY:.*]] = mpc.select %[[SEEN]], %arg3, %{{.*}}
// CHECK: mpc.library_attention_grad %[[DY]], %arg0, %arg1, %arg2, %[[Y]], %[[S]] bias %[[BIAS]]
// CHECK: return %[[CLEARED]]
func.func @empty_rows(%q: tensor<2x3x7x16xbf16>, %k: tensor<2x3x7x16xbf16>, %v: tensor<2x3x7x16xbf16>, %dy: tensor<2x3x7x16xbf16>, %bias: tensor<2x1x1x7xf32>)
    -> (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>) {
  %y = mpc.attention %q, %k, %v bias %bias {zero_empty_rows}
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x1x1x7xf32>) -> tensor<2x3x7x16xbf16>
  %dq, %dk, %dv, %db = mpc.attention_grad %dy, %q, %k, %v bias %bias {zero_empty_rows}
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x1x1x7xf32>)
      -> (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x1x1x7xf32>)
  return %y, %dq : tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>
}

// -----

// A gradient that the library does not compute reads the softmax again, from
// products. The forward pass keeps the bits of an evaluation.
// CHECK-LABEL: func.func @wide_gradient
// CHECK: mpc.library_attention %
// CHECK: mpc.attention_grad %
func.func @wide_gradient(%q: tensor<2x3x7x16xbf16>, %dy: tensor<2x3x7x16xf32>) -> (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xf32>) {
  %y = mpc.attention %q, %q, %q : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>) -> tensor<2x3x7x16xbf16>
  %dq, %dk, %dv = mpc.attention_grad %dy, %q, %q, %q
      : (tensor<2x3x7x16xf32>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>)
      -> (tensor<2x3x7x16xf32>, tensor<2x3x7x16xf32>, tensor<2x3x7x16xf32>)
  return %y, %dq : tensor<2x3x7x16xbf16>, tensor<2x3x7x16xf32>
}

// -----

// A bias that no step trains.
// CHECK-LABEL: func.func @frozen
// CHECK: mpc.library_attention %{{.*}} bias
mpc.variable @bias : tensor<3x7x7xf32> role frozen
func.func @frozen(%q: tensor<2x3x7x16xbf16>, %bias: tensor<3x7x7xf32> {mpc.state = @bias}) -> tensor<2x3x7x16xbf16> {
  %y = mpc.attention %q, %q, %q bias %bias
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<3x7x7xf32>) -> tensor<2x3x7x16xbf16>
  return %y : tensor<2x3x7x16xbf16>
}
