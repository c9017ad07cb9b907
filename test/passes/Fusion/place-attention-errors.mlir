// The library does not compute these attentions, by
// compiler/Kernels/LibraryAttention.cpp. Without the flag, products do.
// RUN: mpc-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(mpc-place-attention{attention=library}))"
// RUN: mpc-opt %s --split-input-file --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(mpc-place-attention))" | FileCheck %s --implicit-check-not=library_attention

// CHECK-LABEL: func.func @wide
func.func @wide(%q: tensor<2x3x7x16xf32>) -> tensor<2x3x7x16xf32> {
  // expected-error@+1 {{--attention library: no library of the target computes attention 'mpc.attention': expected query, key, value and output in f16 or in bf16, found f32, f32, f32 and f32; with --attention auto, products compute this attention}}
  %y = mpc.attention %q, %q, %q : (tensor<2x3x7x16xf32>, tensor<2x3x7x16xf32>, tensor<2x3x7x16xf32>) -> tensor<2x3x7x16xf32>
  return %y : tensor<2x3x7x16xf32>
}

// -----

// CHECK-LABEL: func.func @wide_output
func.func @wide_output(%q: tensor<2x3x7x16xbf16>) -> tensor<2x3x7x16xf32> {
  // expected-error@+1 {{found bf16, bf16, bf16 and f32}}
  %y = mpc.attention %q, %q, %q : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>) -> tensor<2x3x7x16xf32>
  return %y : tensor<2x3x7x16xf32>
}

// -----

// CHECK-LABEL: func.func @odd_width
func.func @odd_width(%q: tensor<2x3x7x12xbf16>) -> tensor<2x3x7x12xbf16> {
  // expected-error@+1 {{expected heads of a multiple of 8 elements, at most 256, found 12}}
  %y = mpc.attention %q, %q, %q : (tensor<2x3x7x12xbf16>, tensor<2x3x7x12xbf16>, tensor<2x3x7x12xbf16>) -> tensor<2x3x7x12xbf16>
  return %y : tensor<2x3x7x12xbf16>
}

// -----

// CHECK-LABEL: func.func @capped
func.func @capped(%q: tensor<2x3x7x16xbf16>) -> tensor<2x3x7x16xbf16> {
  // expected-error@+1 {{scores have a softcap}}
  %y = mpc.attention %q, %q, %q {softcap = 5.0 : f64} : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>) -> tensor<2x3x7x16xbf16>
  return %y : tensor<2x3x7x16xbf16>
}

// -----

// CHECK-LABEL: func.func @dropped
func.func @dropped(%q: tensor<2x3x7x16xbf16>, %seed: tensor<i64>, %step: tensor<i64>) -> tensor<2x3x7x16xbf16> {
  // expected-error@+1 {{the softmax has a dropout}}
  %y = mpc.attention %q, %q, %q random %seed, %step {dropout = 1.0e-1 : f64, dropout_id = 3 : i64}
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<i64>, tensor<i64>) -> tensor<2x3x7x16xbf16>
  return %y : tensor<2x3x7x16xbf16>
}

// -----

// CHECK-LABEL: func.func @offset
func.func @offset(%q: tensor<2x3x5x16xbf16>, %k: tensor<2x3x7x16xbf16>) -> tensor<2x3x5x16xbf16> {
  // expected-error@+1 {{expected a causal offset of 0 or 2, found 1}}
  %y = mpc.attention %q, %k, %k {causal_offset = 1 : i64} : (tensor<2x3x5x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>) -> tensor<2x3x5x16xbf16>
  return %y : tensor<2x3x5x16xbf16>
}

// -----

// CHECK-LABEL: func.func @offset_and_bias
func.func @offset_and_bias(%q: tensor<2x3x5x16xbf16>, %k: tensor<2x3x7x16xbf16>, %bias: tensor<5x7xf32>) -> tensor<2x3x5x16xbf16> {
  // expected-error@+1 {{expected no mask and no bias beside a causal offset of 2}}
  %y = mpc.attention %q, %k, %k bias %bias {causal_offset = 2 : i64} : (tensor<2x3x5x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<5x7xf32>) -> tensor<2x3x5x16xbf16>
  return %y : tensor<2x3x5x16xbf16>
}

// -----

// CHECK-LABEL: func.func @single
func.func @single(%q: tensor<2x3x1x16xbf16>) -> tensor<2x3x1x16xbf16> {
  // expected-error@+1 {{a single query sees a single key}}
  %y = mpc.attention %q, %q, %q : (tensor<2x3x1x16xbf16>, tensor<2x3x1x16xbf16>, tensor<2x3x1x16xbf16>) -> tensor<2x3x1x16xbf16>
  return %y : tensor<2x3x1x16xbf16>
}

// -----

// A score added to -1000 still counts, if a row has no other scores.
// CHECK-LABEL: func.func @shown
func.func @shown(%q: tensor<2x3x7x16xbf16>, %mask: tensor<7x7xi1>) -> tensor<2x3x7x16xbf16> {
  // expected-error@+1 {{hidden scores are -1000.00, not minus infinity}}
  %y = mpc.attention %q, %q, %q mask %mask {hidden = -1.0e3 : f64}
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<7x7xi1>) -> tensor<2x3x7x16xbf16>
  return %y : tensor<2x3x7x16xbf16>
}

// -----

// CHECK-LABEL: func.func @empty_rows
func.func @empty_rows(%q: tensor<2x3x7x16xbf16>, %mask: tensor<7x7xi1>) -> tensor<2x3x7x16xbf16> {
  // expected-error@+1 {{queries that see no key, by a mask and a causal order, shall get zeros}}
  %y = mpc.attention %q, %q, %q mask %mask {zero_empty_rows, causal_offset = 0 : i64}
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<7x7xi1>) -> tensor<2x3x7x16xbf16>
  return %y : tensor<2x3x7x16xbf16>
}

// -----

// CHECK-LABEL: func.func @some_heads
func.func @some_heads(%q: tensor<2x2x3x7x16xbf16>, %k: tensor<2x2x1x7x16xbf16>, %bias: tensor<2x1x7x7xf32>) -> tensor<2x2x3x7x16xbf16> {
  // expected-error@+1 {{a bias or mask of shape [2, 1, 7, 7] repeats for some heads or all keys}}
  %y = mpc.attention %q, %k, %k bias %bias
      : (tensor<2x2x3x7x16xbf16>, tensor<2x2x1x7x16xbf16>, tensor<2x2x1x7x16xbf16>, tensor<2x1x7x7xf32>) -> tensor<2x2x3x7x16xbf16>
  return %y : tensor<2x2x3x7x16xbf16>
}

// -----

// CHECK-LABEL: func.func @apart
func.func @apart(%q: tensor<2x3x4x7x16xbf16>, %k: tensor<1x3x4x7x16xbf16>) -> tensor<2x3x4x7x16xbf16> {
  // expected-error@+1 {{expected adjacent query heads for each key head, found a query [2, 3, 4, 7, 16] and a key [1, 3, 4, 7, 16]}}
  %y = mpc.attention %q, %k, %k : (tensor<2x3x4x7x16xbf16>, tensor<1x3x4x7x16xbf16>, tensor<1x3x4x7x16xbf16>) -> tensor<2x3x4x7x16xbf16>
  return %y : tensor<2x3x4x7x16xbf16>
}

// -----

// A trained bias needs a gradient. An evaluation has none, but gets the bits of
// training.
// CHECK-LABEL: func.func @trained
mpc.variable @bias : tensor<3x7x7xf32> role parameter
func.func @trained(%q: tensor<2x3x7x16xbf16>, %bias: tensor<3x7x7xf32> {mpc.state = @bias}) -> tensor<2x3x7x16xbf16> {
  %double = mpc.add %bias, %bias : (tensor<3x7x7xf32>, tensor<3x7x7xf32>) -> tensor<3x7x7xf32>
  // expected-error@+1 {{a bias depends on trained state, and may need a gradient}}
  %y = mpc.attention %q, %q, %q bias %double
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<3x7x7xf32>) -> tensor<2x3x7x16xbf16>
  return %y : tensor<2x3x7x16xbf16>
}

// -----

// CHECK-LABEL: func.func @alone
func.func @alone(%q: tensor<2x3x7x16xbf16>) -> tensor<2x3x7x16xbf16> {
  // expected-error@+1 {{its forward pass is elsewhere}}
  %dq, %dk, %dv = mpc.attention_grad %q, %q, %q, %q
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>)
      -> (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>)
  return %dq : tensor<2x3x7x16xbf16>
}
