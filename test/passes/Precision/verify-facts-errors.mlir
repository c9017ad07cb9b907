// RUN: mpc-opt %s -split-input-file -amp-verify-precision -verify-diagnostics

// The verifier computes policy, flags, loss, ranges and types of the model
// again. Each graph has a record that these facts contradict.

// A record that says update, outside of the update.
#low = #amp.decision<operands = [f32], results = [f16], compute = f32, class = infer, rule = "test", why = "", reason = update, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed">} {
  func.func @claims_update(%x: tensor<4x4xf32>) {
    // expected-error@+2 {{recorded as infer, but policy says deny}}
    // expected-error@+1 {{is of class deny, but decided as low}}
    %0 = mpc.exp %x {amp.decision = #low} : (tensor<4x4xf32>) -> tensor<4x4xf16>
    return
  }
}

// -----

// A reason that the record of the types of the model does not support.
#low = #amp.decision<operands = [f32], results = [f16], compute = f32, class = deny, rule = "test", why = "", reason = model_type, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed">} {
  func.func @claims_model_type(%x: tensor<4x4xf32>) {
    // expected-error@+1 {{is of class deny, but decided as low}}
    %0 = mpc.exp %x {amp.decision = #low} : (tensor<4x4xf32>) -> tensor<4x4xf16>
    return
  }
}

// -----

// A type of the model that no operand has.
#low = #amp.decision<operands = [f32], results = [f16], compute = f32, model = [f16], class = deny, rule = "test", why = "", reason = model_type, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed">} {
  func.func @invents_model_type(%x: tensor<4x4xf32>) {
    // expected-error@+1 {{recorded as 'f16' in the model, but no operand has this type there}}
    %0 = mpc.exp %x {amp.decision = #low} : (tensor<4x4xf32>) -> tensor<4x4xf16>
    return
  }
}

// -----

// A forced op without a flag.
#low = #amp.decision<operands = [f32], results = [f16], compute = f32, class = deny, rule = "test", why = "", reason = force_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed", force_low = ["^other$"]>} {
  func.func @claims_flag(%x: tensor<4x4xf32>) {
    // expected-error @unknown {{of node 'e': is of class deny, but decided as low}}
    %0 = mpc.exp %x {amp.decision = #low} : (tensor<4x4xf32>) -> tensor<4x4xf16> loc("e")
    return
  }
}

// -----

// A low op that --keep-fp32 names.
#low = #amp.decision<operands = [f32], results = [f16], compute = f32, class = clear, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed", keep_fp32 = ["^kept$"]>} {
  func.func @ignores_flag(%x: tensor<4x4xf32>) {
    // expected-error @unknown {{of node 'kept': must be kept in fp32 (keep_fp32), but is decided as low}}
    %0 = mpc.relu %x {amp.decision = #low} : (tensor<4x4xf32>) -> tensor<4x4xf16> loc("kept")
    return
  }
}

// -----

// A low op of a loss that the model spells out.
#low = #amp.decision<operands = [f32], results = [bf16], compute = f32, class = infer, rule = "test", why = "", reason = loss_region, path = [], evidence = assumed>
#high = #amp.decision<operands = [f32], results = [f32], compute = f32, class = infer, rule = "test", why = "", reason = loss_region, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @lowers_loss(%x: tensor<f32>) -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
    // expected-error@+1 {{must be kept in fp32 (loss_region), but is decided as low}}
    %p = mpc.sigmoid %x {amp.decision = #low} : (tensor<f32>) -> tensor<bf16>
    // expected-error@+1 {{kept in fp32 (loss_region) but reads operand 0 in 'bf16'}}
    %l = mpc.tanh %p {amp.decision = #high} : (tensor<bf16>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// An op of a loss that is high, but for another reason.
#high = #amp.decision<operands = [f32], results = [f32], compute = f32, class = infer, rule = "test", why = "", reason = not_between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @hides_loss(%x: tensor<f32>) -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
    // expected-error@+1 {{recorded for the reason not_between_low, but the reason is loss_region}}
    %l = mpc.tanh %x {amp.decision = #high} : (tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// A constant out of the range of float16.
#low = #amp.decision<operands = [f32, f32], results = [f16], compute = f32, class = infer, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
#constant = #amp.decision<operands = [], results = [f32], compute = f32, class = fixed, rule = "test", why = "", reason = constant, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed">} {
  func.func @leaves_range(%x: tensor<4xf32>) {
    %c = mpc.constant {amp.decision = #constant} dense<1.0e+6> : tensor<4xf32>
    // expected-error@+1 {{must be kept in fp32 (constant_range), but is decided as low}}
    %0 = mpc.mul %x, %c {amp.decision = #low} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf16>
    return
  }
}

// -----

// 1 - p, where p comes close to 1.
#low = #amp.decision<operands = [f32], results = [bf16], compute = f32, class = infer, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = infer, rule = "test", why = "", reason = not_between_low, path = [], evidence = assumed>
#constant = #amp.decision<operands = [], results = [f32], compute = f32, class = fixed, rule = "test", why = "", reason = constant, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @cancels(%x: tensor<4xf32>) {
    %one = mpc.constant {amp.decision = #constant} dense<1.0> : tensor<4xf32>
    // expected-error@+2 {{must be kept in fp32 (constant_range), but is decided as low}}
    // expected-error@+1 {{rounds result 0 to 'bf16', which is close to a constant and would lose all digits}}
    %p = mpc.sigmoid %x {amp.decision = #low} : (tensor<4xf32>) -> tensor<4xbf16>
    %q = mpc.sub %one, %p {amp.decision = #high} : (tensor<4xf32>, tensor<4xbf16>) -> tensor<4xf32>
    return
  }
}

// -----

// All parts of a concatenation are rounded by casts, then widened.
#low = #amp.decision<operands = [bf16, bf16], results = [bf16], compute = f32, class = clear, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @lossy_concat(%x: tensor<4x2xf32>, %y: tensor<4x2xf32>) {
    %0 = amp.cast %x : (tensor<4x2xf32>) -> tensor<4x2xbf16>
    %1 = amp.cast %y : (tensor<4x2xf32>) -> tensor<4x2xbf16>
    %2 = mpc.concat %0, %1 {axis = 1 : i64, amp.decision = #low} : (tensor<4x2xbf16>, tensor<4x2xbf16>) -> tensor<4x4xbf16>
    // expected-error@+1 {{widens what a cast from 'f32' to 'bf16' has rounded}}
    %3 = amp.cast %2 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
    return
  }
}

// -----

// An op that does not multiply reads a wide value through a cast.
#high = #amp.decision<operands = [any], results = [f32], compute = f32, class = infer, rule = "test", why = "", reason = not_between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @lossy_reader(%x: tensor<4xf32>) {
    %0 = amp.cast %x : (tensor<4xf32>) -> tensor<4xbf16>
    // expected-error@+1 {{reads operand 0 through a cast that rounds, but does not multiply it}}
    %1 = mpc.tanh %0 {amp.decision = #high} : (tensor<4xbf16>) -> tensor<4xf32>
    return
  }
}

// -----

// No mode says that ops may be low.
#low = #amp.decision<operands = [any], results = [bf16], compute = f32, class = clear, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
// expected-error@+1 {{expected amp.mode, since some ops are decided as low}}
module {
  func.func @without_mode(%x: tensor<4xf32>) {
    %0 = mpc.relu %x {amp.decision = #low} : (tensor<4xf32>) -> tensor<4xbf16>
    return
  }
}

// -----

// 32-true has no low type.
#low = #amp.decision<operands = [any], results = [bf16], compute = f32, class = clear, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"32-true">} {
  func.func @low_in_32_true(%x: tensor<4xf32>) {
    // expected-error@+1 {{decided as low in a mode without a low type}}
    %0 = mpc.relu %x {amp.decision = #low} : (tensor<4xf32>) -> tensor<4xbf16>
    return
  }
}

// -----

// A rounded constant. The constant of the model is out of the range of float16.
#low = #amp.decision<operands = [f16, f16], results = [f32], compute = f16, class = allow, rule = "test", why = "", reason = allow_list, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed">} {
  func.func @rounds_out_of_range(%x: tensor<4x4xf32>) {
    %c = mpc.constant {amp.rounded = array<f64: 1.0e+6, 1.0e+6, 1.0e+6>} dense<0x7C00> : tensor<4x4xf16>
    %x0 = amp.cast %x : (tensor<4x4xf32>) -> tensor<4x4xf16>
    // expected-error@+1 {{must be kept in fp32 (constant_range), but is decided as low}}
    %0 = mpc.matmul %x0, %c {amp.decision = #low} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
    return
  }
}

// -----

// A multiple of a seed without a loss scale. Model constants have records.
#low = #amp.decision<operands = [f32, f32], results = [bf16], compute = f32, class = infer, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>
#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = infer, rule = "test", why = "", reason = not_between_low, path = [], evidence = assumed>
#constant = #amp.decision<operands = [], results = [f32], compute = f32, class = fixed, rule = "test", why = "", reason = constant, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
  func.func @rounds_seed(%x: tensor<f32>) {
    %seed = mpc.constant {amp.seed} dense<1.0> : tensor<f32>
    // expected-error@+1 {{expected an amp.decision, since the constant is neither rounded nor a seed, found none}}
    %unknown = mpc.constant dense<2.0> : tensor<f32>
    %two = mpc.constant {amp.decision = #constant} dense<2.0> : tensor<f32>
    // expected-error@+2 {{must be kept in fp32 (loss_region), but is decided as low}}
    // expected-error@+1 {{recorded for the reason between_low, but the reason is loss_region}}
    %0 = mpc.mul %seed, %two {amp.decision = #low, mpc.phase = #mpc.phase<backward>} : (tensor<f32>, tensor<f32>) -> tensor<bf16>
    %1 = mpc.mul %x, %unknown {amp.decision = #high} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return
  }
}
