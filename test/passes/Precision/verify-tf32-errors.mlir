// Products may round to tf32 only if the user allows this and no fact keeps them
// in fp32.
// RUN: mpc-opt %s -split-input-file -verify-diagnostics -amp-verify-precision

#tf32 = #amp.decision<operands = [f32, f32], results = [f32], compute = tf32, class = allow, rule = "test", why = "", reason = tf32, path = [], evidence = assumed>
module attributes {mpc.target = #mpc.target<"sm_90">, amp.mode = #amp.mode<"32-true">, amp.request = #amp.request<"32-true", tf32 = true>} {
  func.func @allowed(%x: tensor<4x4xf32>) {
    %0 = mpc.matmul %x, %x {amp.decision = #tf32, amp.tf32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

#tf32 = #amp.decision<operands = [f32, f32], results = [f32], compute = tf32, class = allow, rule = "test", why = "", reason = tf32, path = [], evidence = assumed>
module attributes {mpc.target = #mpc.target<"sm_90">, amp.mode = #amp.mode<"32-true">} {
  func.func @without_the_flag(%x: tensor<4x4xf32>) {
    // expected-error@+1 {{decided as tf32, which is only for GPUs with --tf32}}
    %0 = mpc.matmul %x, %x {amp.decision = #tf32, amp.tf32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

#tf32 = #amp.decision<operands = [f32, f32], results = [f32], compute = tf32, class = allow, rule = "test", why = "", reason = tf32, path = [], evidence = assumed>
module attributes {mpc.target = #mpc.target<"zen5">, amp.mode = #amp.mode<"32-true">, amp.request = #amp.request<"32-true", tf32 = true>} {
  func.func @on_a_cpu(%x: tensor<4x4xf32>) {
    // expected-error@+1 {{decided as tf32, which is only for GPUs with --tf32}}
    %0 = mpc.matmul %x, %x {amp.decision = #tf32, amp.tf32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

#tf32 = #amp.decision<operands = [f32, f32], results = [f32], compute = tf32, class = allow, rule = "test", why = "", reason = tf32, path = [], evidence = assumed>
module attributes {mpc.target = #mpc.target<"sm_90">, amp.mode = #amp.mode<"32-true">, amp.request = #amp.request<"32-true", keep_fp32 = ["^fc1$"], tf32 = true>} {
  func.func @kept_by_a_flag(%x: tensor<4x4xf32>) {
    // expected-error @unknown {{must be kept in fp32 (keep_fp32), but is decided as tf32}}
    %0 = mpc.matmul %x, %x {amp.decision = #tf32, amp.tf32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc1")
    return
  }
}

// -----

#tf32 = #amp.decision<operands = [f32, f32], results = [f32], compute = tf32, class = allow, rule = "test", why = "", reason = tf32, path = [], evidence = assumed>
#f32 = #amp.decision<operands = [f32, f32], results = [f32], compute = f32, class = allow, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
module attributes {mpc.target = #mpc.target<"sm_90">, amp.mode = #amp.mode<"32-true">, amp.request = #amp.request<"32-true", tf32 = true>} {
  func.func @marks_as_decided(%x: tensor<4x4xf32>) {
    // expected-error@+1 {{expected amp.tf32 as decided, since the op computes in 'tf32'}}
    %0 = mpc.matmul %x, %x {amp.decision = #tf32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error@+1 {{expected no amp.tf32, since the op computes in 'f32'}}
    %1 = mpc.matmul %x, %x {amp.decision = #f32, amp.tf32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

#tf32 = #amp.decision<operands = [any], results = [f32], compute = tf32, class = clear, rule = "test", why = "", reason = tf32, path = [], evidence = assumed>
module attributes {mpc.target = #mpc.target<"sm_90">, amp.mode = #amp.mode<"32-true">, amp.request = #amp.request<"32-true", tf32 = true>} {
  func.func @no_product(%x: tensor<4x4xf32>) {
    // expected-error@+1 {{expected arithmetic in fp32 at least, found 'tf32'}}
    %0 = mpc.relu %x {amp.decision = #tf32, amp.tf32} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}
