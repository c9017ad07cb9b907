// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},plan-build-programs)" | FileCheck %s

// Heads are columns of one buffer. The gradients are boxes of one buffer, too.
// CHECK-LABEL: plan.program @step
// CHECK: %[[P:.*]] = plan.input "p"
// CHECK: %[[DP:.*]] = plan.arena : memref<2x7x144xbf16>
// CHECK: %[[DQ:.*]] = plan.view %[[DP]] : memref<2x7x144xbf16> to memref<2x7x9x16xbf16>
// CHECK: %[[DK:.*]] = plan.view %[[DP]]
// CHECK: %[[DV:.*]] = plan.view %[[DP]]
// CHECK: %[[O:.*]] = plan.arena : memref<2x7x3x16xbf16>
// CHECK: %[[S:.*]] = plan.arena : memref<2x3x7xf32>
// CHECK: plan.attention forward query(%[[P]] : memref<2x7x144xbf16>) key(%[[P]] : {{.*}}) value(%[[P]] : {{.*}}) bias(%{{.*}} : memref<2x1x1x7xf32>) output(%[[O]] : {{.*}}) statistics(%[[S]] : {{.*}})
// CHECK-SAME: shape <batch = 2, heads = 3, key_heads = 3, queries = 7, keys = 7, size = 16, columns = 16,
// CHECK-SAME: query_at = <batch = 1008, head = 16, token = 144>,
// CHECK-SAME: key_at = <offset = 48, batch = 1008, head = 16, token = 144>,
// CHECK-SAME: output_at = <batch = 336, head = 16, token = 48>,
// CHECK-SAME: bias_at = <batch = 7, key = 1>
// CHECK: plan.attention gradient
// CHECK-SAME: d_query(%[[DQ]] : {{.*}}) d_key(%[[DK]] : {{.*}}) d_value(%[[DV]]
// CHECK-SAME: d_query_at = <batch = 1008, head = 16, token = 144>,
// CHECK-SAME: d_key_at = <offset = 48, batch = 1008, head = 16, token = 144>,
// CHECK-SAME: d_value_at = <offset = 96, batch = 1008, head = 16, token = 144>>
func.func @step(%p: tensor<2x7x144xbf16> {mpc.input = "p"}, %dy: tensor<2x3x7x16xbf16> {mpc.input = "dy"}, %b: tensor<2x1x1x7xf32> {mpc.input = "b"})
    -> (tensor<2x7x3x16xbf16> {mpc.output = "y"}, tensor<2x7x144xbf16> {mpc.output = "dp"}) {
  %q = plan.access %p {offset = 0 : i64, strides = array<i64: 1008, 16, 144, 1>} : tensor<2x7x144xbf16> to tensor<2x3x7x16xbf16>
  %k = plan.access %p {offset = 48 : i64, strides = array<i64: 1008, 16, 144, 1>} : tensor<2x7x144xbf16> to tensor<2x3x7x16xbf16>
  %v = plan.access %p {offset = 96 : i64, strides = array<i64: 1008, 16, 144, 1>} : tensor<2x7x144xbf16> to tensor<2x3x7x16xbf16>
  %y, %s = mpc.library_attention %q, %k, %v bias %b : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x1x1x7xf32>) -> (tensor<2x3x7x16xbf16>, tensor<2x3x7xf32>)
  %out = plan.arrange %y {perm = array<i64: 0, 2, 1, 3>} : tensor<2x3x7x16xbf16> to tensor<2x7x3x16xbf16>
  %o = plan.access %out {offset = 0 : i64, strides = array<i64: 336, 16, 48, 1>} : tensor<2x7x3x16xbf16> to tensor<2x3x7x16xbf16>
  %dq, %dk, %dv = mpc.library_attention_grad %dy, %q, %k, %v, %o, %s bias %b
      : (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7xf32>, tensor<2x1x1x7xf32>)
     -> (tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>, tensor<2x3x7x16xbf16>)
  %0 = plan.arrange %dq {perm = array<i64: 0, 2, 1, 3>} : tensor<2x3x7x16xbf16> to tensor<2x7x3x16xbf16>
  %1 = plan.place %0 : tensor<2x7x3x16xbf16> to tensor<2x7x9x16xbf16>
  %2 = plan.arrange %dk {perm = array<i64: 0, 2, 1, 3>} : tensor<2x3x7x16xbf16> to tensor<2x7x3x16xbf16>
  %3 = plan.place %2 {offsets = array<i64: 0, 0, 3, 0>} : tensor<2x7x3x16xbf16> to tensor<2x7x9x16xbf16>
  %4 = plan.arrange %dv {perm = array<i64: 0, 2, 1, 3>} : tensor<2x3x7x16xbf16> to tensor<2x7x3x16xbf16>
  %5 = plan.place %4 {offsets = array<i64: 0, 0, 6, 0>} : tensor<2x7x3x16xbf16> to tensor<2x7x9x16xbf16>
  %dp = plan.assemble %1, %3, %5 : (tensor<2x7x9x16xbf16>, tensor<2x7x9x16xbf16>, tensor<2x7x9x16xbf16>) -> tensor<2x7x144xbf16>
  return %out, %dp : tensor<2x7x3x16xbf16>, tensor<2x7x144xbf16>
}

// Without a gradient, there are no statistics. One head has the stride of a
// whole token.
// CHECK-LABEL: plan.program @forward
// CHECK: plan.attention forward
// CHECK-NOT: statistics
// CHECK-SAME: query_at = <batch = 112, head = 112, token = 16>
// CHECK-NOT: memref<2x1x7xf32>
func.func @forward(%q: tensor<2x1x7x16xf16> {mpc.input = "q"}) -> (tensor<2x1x7x16xf16> {mpc.output = "y"}) {
  %y, %s = mpc.library_attention %q, %q, %q : (tensor<2x1x7x16xf16>, tensor<2x1x7x16xf16>, tensor<2x1x7x16xf16>) -> (tensor<2x1x7x16xf16>, tensor<2x1x7xf32>)
  return %y : tensor<2x1x7x16xf16>
}
