// RUN: mpc-opt %s -split-input-file -amp-verify-precision -verify-diagnostics

// Each case breaks one rule, in the pass's order.

func.func @no_record(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @unknown {{of node 'a': expected an amp.decision}}
  %0 = mpc.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  return %0 : tensor<4x4xf32>
}

// -----

#low = #amp.decision<operands = [any], results = [bf16], compute = f32, class = clear, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @stored_in_another_type(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    // expected-error@+1 {{expected result 0 in 'bf16' as decided, found 'f32'}}
    %0 = mpc.relu %x {amp.decision = #low} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}

// -----

#low = #amp.decision<operands = [any], results = [f16], compute = f32, class = clear, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
#deny = #amp.decision<operands = [f32], results = [f32], compute = f32, class = deny, rule = "test", why = "", reason = deny_list, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed">} {
  func.func @denied_reads_low(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = mpc.relu %x {amp.decision = #low} : (tensor<4x4xf32>) -> tensor<4x4xf16>
    // expected-error@+1 {{kept in fp32 (deny_list) but reads operand 0 in 'f16'}}
    %1 = mpc.exp %0 {amp.decision = #deny} : (tensor<4x4xf16>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
}

// -----

#low = #amp.decision<operands = [bf16, bf16], results = [f32], compute = bf16, class = allow, rule = "test", why = "", reason = allow_list, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @multiplies_another_type(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = amp.cast %x : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    // expected-error@+1 {{expected to multiply 'bf16' as decided, found operand 1 in 'f32'}}
    %1 = mpc.matmul %0, %x {amp.decision = #low} : (tensor<4x4xbf16>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
}

// -----

#low = #amp.decision<operands = [any, any], results = [bf16], compute = bf16, class = infer, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @arithmetic_below_fp32(%x: tensor<4x4xf32>) {
    // expected-error@+1 {{expected arithmetic in fp32 at least, found 'bf16'}}
    %0 = mpc.add %x, %x {amp.decision = #low} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xbf16>
    return
  }
}

// -----

#short = #amp.decision<operands = [any], results = [f32], compute = f32, class = infer, rule = "test", why = "", reason = not_between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @operand_without_type(%x: tensor<4x4xf32>) {
    // expected-error@+1 {{expected an amp.decision with a type for each float operand and result, found 1 operands and 1 results}}
    %0 = mpc.add %x, %x {amp.decision = #short} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

// A denied op reads the types of the model, and the record says so.
#deny = #amp.decision<operands = [any], results = [f32], compute = f32, class = deny, rule = "test", why = "", reason = deny_list, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed">} {
  func.func @kept_op_may_read_any_type(%x: tensor<4x4xf32>) {
    // expected-error@+1 {{expected operand 0 to be decided as 'f32', found any}}
    %0 = mpc.exp %x {amp.decision = #deny} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return
  }
}

// -----

// Policy keeps the angles of a rotation in fp32.
#low = #amp.decision<operands = [any, any, f32], results = [bf16], compute = f32, class = infer, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @kept_operand_may_have_any_type(%x: tensor<1x1x2x4xf32>, %c: tensor<2x2xf32>) {
    // expected-error@+1 {{expected operand 1 to be decided as 'f32', found any}}
    %0 = mpc.rotary_embedding %x, %c, %c {amp.decision = #low} : (tensor<1x1x2x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<1x1x2x4xbf16>
    return
  }
}

// -----

// Only contractions and movements may ask for low operands.
#low = #amp.decision<operands = [bf16, any], results = [bf16], compute = f32, class = infer, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @sum_decided_to_read_low(%x: tensor<4x4xf32>) {
    // expected-error@+1 {{expected operand 0 to be decided as 'f32', found 'bf16'}}
    %0 = mpc.add %x, %x {amp.decision = #low} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xbf16>
    return
  }
}

// -----

// expected-error@+1 {{expected state of role parameter in fp32 at least, found 'bf16'}}
mpc.variable @w : tensor<8xbf16> role parameter
// expected-error@+1 {{expected state of role optimizer_state in fp32 at least, found 'f16'}}
mpc.variable @w.m : tensor<8xf16> role optimizer_state
// expected-error@+1 {{expected state of role accumulator in fp32 at least, found 'bf16'}}
mpc.variable @w.grad : tensor<8xbf16> role accumulator
// expected-error@+1 {{expected state of role statistic in fp32 at least, found 'bf16'}}
mpc.variable @mean : tensor<8xbf16> role statistic

// -----

func.func @lossy_pair(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = amp.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  // expected-error@+1 {{widens what a cast from 'f32' to 'bf16' has rounded}}
  %1 = amp.cast %0 : (tensor<8xbf16>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

#high = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
func.func @optimizer_reads_low(%w: tensor<8xf32>, %g: tensor<8xbf16>, %lr: tensor<f32>) -> tensor<8xf32> {
  // expected-error@+1 {{expected fp32 at least, found 'tensor<8xbf16>'}}
  %0 = mpc.sgd %w, %g, %lr {amp.decision = #high} : (tensor<8xf32>, tensor<8xbf16>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

mpc.variable @w : tensor<8xf32> role parameter
mpc.variable @w.low : tensor<8xbf16> role derived
// expected-error@+1 {{updates @w but does not write its copy @w.low}}
func.func @copy_lags_behind(%w: tensor<8xf32> {mpc.state = @w}) -> (tensor<8xf32> {mpc.updates = @w}) {
  return %w : tensor<8xf32>
}
func.func @derive(%w: tensor<8xf32> {mpc.state = @w}) -> (tensor<8xbf16> {mpc.updates = @w.low}) {
  %0 = amp.cast %w : (tensor<8xf32>) -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}

// -----

func.func @unexpanded() -> tensor<f32> {
  // expected-error@+1 {{expected gradients to be expanded by an earlier stage}}
  %0 = mpc.gradient_seed : tensor<f32>
  return %0 : tensor<f32>
}

// -----

#low = #amp.decision<operands = [any, f32, f32, f32, f32], results = [bf16, f32, f32, bf16, f32], compute = f32, class = infer, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @normalisation_in_bf16(%x: tensor<4x8x4x4xf32>, %s: tensor<8xf32>, %m: tensor<8xf32>) -> tensor<8xf32> {
    %x16 = amp.cast %x : (tensor<4x8x4x4xf32>) -> tensor<4x8x4x4xbf16>
    %s16 = amp.cast %s : (tensor<8xf32>) -> tensor<8xbf16>
    // expected-error@+3 {{reads operand 0 through a cast that rounds, but does not multiply it}}
    // expected-error@+2 {{expected result 3 in fp32, found 'bf16'}}
    // expected-error@+1 {{expected operand 1 in fp32, found 'bf16'}}
    %y, %mean, %inv, %nm, %nv = mpc.batch_norm %x16, %s16, %m, %m, %m {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64, amp.decision = #low} : (tensor<4x8x4x4xbf16>, tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8x4x4xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>)
    return %mean : tensor<8xf32>
  }
}

// -----

mpc.variable @w : tensor<4x4xf32> role parameter
mpc.variable @w.low : tensor<4x4xbf16> role derived
#deny = #amp.decision<operands = [f32], results = [f32], compute = f32, class = deny, rule = "test", why = "", reason = deny_list, path = [], evidence = assumed>
func.func @denied_op_reads_low_copy(%w: tensor<4x4xbf16> {mpc.state = @w.low}) -> tensor<4x4xf32> {
  // expected-error@+1 {{kept in fp32 (deny_list) but reads operand 0 in 'bf16'}}
  %0 = mpc.exp %w {amp.decision = #deny} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func @derive(%w: tensor<4x4xf32> {mpc.state = @w}) -> (tensor<4x4xbf16> {mpc.updates = @w.low}) {
  %0 = amp.cast %w : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  return %0 : tensor<4x4xbf16>
}

// -----

mpc.variable @w : tensor<8xf32> role parameter
// expected-error@+1 {{expected @derive to write @w.low, the low copy of a parameter}}
mpc.variable @w.low : tensor<8xbf16> role derived

// -----

#low = #amp.decision<operands = [f16], results = [f16], compute = f32, class = deny, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed">} {
  func.func @denied_op_decided_low(%x: tensor<4x4xf16>) {
    // expected-error@+3 {{recorded for the reason between_low, but the reason is model_type}}
    // expected-error@+2 {{is of class deny, but decided as low}}
    // expected-error@+1 {{expected result 0 in fp32, found 'f16'}}
    %0 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = false, amp.decision = #low} : (tensor<4x4xf16>) -> tensor<4xf16>
    return
  }
}

// -----

#low = #amp.decision<operands = [any], results = [f16], compute = f32, class = infer, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @not_what_policy_and_mode_say(%x: tensor<4x4xf32>) {
    // expected-error@+2 {{recorded as infer, but policy says clear}}
    // expected-error@+1 {{decided as 'f16' in a mode that lowers to 'bf16'}}
    %0 = mpc.relu %x {amp.decision = #low} : (tensor<4x4xf32>) -> tensor<4x4xf16>
    return
  }
}

// -----

#low = #amp.decision<operands = [bf16], results = [bf16], compute = f32, class = clear, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @lossy_pair_around_a_view(%x: tensor<8xf32>) -> tensor<2x4xf32> {
    %0 = amp.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
    %1 = mpc.reshape %0 {amp.decision = #low} : (tensor<8xbf16>) -> tensor<2x4xbf16>
    // expected-error@+1 {{widens what a cast from 'f32' to 'bf16' has rounded}}
    %2 = amp.cast %1 : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
  }
}

// -----

mpc.variable @w.low : tensor<8xf16> role derived
mpc.variable @w : tensor<8xf32> role parameter
func.func @derive(%w: tensor<8xf32> {mpc.state = @w}) -> (tensor<8xf16> {mpc.updates = @w.low}) {
  %0 = amp.cast %w : (tensor<8xf32>) -> tensor<8xf16>
  return %0 : tensor<8xf16>
}
func.func @double_rounding(%x: tensor<8xf32>) {
  %0 = amp.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  // expected-error@+1 {{rounds again what a cast from 'f32' to 'bf16' has rounded}}
  %1 = amp.cast %0 : (tensor<8xbf16>) -> tensor<8xf16>
  return
}

// -----

#high = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
mpc.variable @w : tensor<8xf32> role parameter
func.func @parameter_leaves_rounded(%w: tensor<8xf32> {mpc.state = @w}, %g: tensor<8xf32>, %lr: tensor<f32>) -> tensor<8xbf16> {
  %w1 = mpc.sgd %w, %g, %lr {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %r = amp.cast %w1 : (tensor<8xf32>) -> tensor<8xbf16>
  // expected-error@+1 {{returns a value that the stage has rounded to 'bf16' as result 0}}
  return %r : tensor<8xbf16>
}
