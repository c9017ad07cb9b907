// RUN: mpc-opt %s -split-input-file -amp-verify-precision -verify-diagnostics

// Every rule fails where it is broken: one case each, in the pass's order.

func.func @no_record(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @unknown {{of node 'a': expected an amp.decision}}
  %0 = mpc.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("a")
  return %0 : tensor<4x4xf32>
}

// -----

#low = #amp.decision<compute = f32, accumulate = f32, storage = bf16, class = clear, rule = "test", why = "", reason = between_low, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
func.func @stored_in_another_type(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{expected result 0 in 'bf16' as decided, found 'f32'}}
  %0 = mpc.relu %x {amp.decision = #low} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

#low = #amp.decision<compute = f32, accumulate = f32, storage = bf16, class = clear, rule = "test", why = "", reason = between_low, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
#deny = #amp.decision<compute = f32, accumulate = f32, storage = f32, class = deny, rule = "test", why = "", reason = deny_list, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
func.func @denied_reads_low(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.relu %x {amp.decision = #low} : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  // expected-error@+1 {{kept in fp32 (deny_list) but reads operand 0 in 'bf16'}}
  %1 = mpc.exp %0 {amp.decision = #deny} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

#low = #amp.decision<compute = bf16, accumulate = f32, storage = f32, class = allow, rule = "test", why = "", reason = allow_list, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
func.func @multiplies_another_type(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = amp.cast %x : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  // expected-error@+1 {{expected to multiply 'bf16' as decided, found operand 1 in 'f32'}}
  %1 = mpc.matmul %0, %x {amp.decision = #low} : (tensor<4x4xbf16>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

#low = #amp.decision<compute = bf16, accumulate = bf16, storage = f32, class = allow, rule = "test", why = "", reason = allow_list, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
func.func @sums_below_fp32(%x: tensor<4x4xbf16>) -> tensor<4x4xf32> {
  // expected-error@+1 {{expected sums in fp32 at least, found 'bf16'}}
  %0 = mpc.matmul %x, %x {amp.decision = #low} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// expected-error@+1 {{expected state of role parameter in fp32 at least, found 'bf16'}}
mpc.variable @w : tensor<8xbf16> role "parameter"
// expected-error@+1 {{expected state of role optimizer_state in fp32 at least, found 'f16'}}
mpc.variable @w.m : tensor<8xf16> role "optimizer_state"
// expected-error@+1 {{expected state of role accumulator in fp32 at least, found 'bf16'}}
mpc.variable @w.grad : tensor<8xbf16> role "accumulator"
// expected-error@+1 {{expected state of role statistic in fp32 at least, found 'bf16'}}
mpc.variable @mean : tensor<8xbf16> role "statistic"
mpc.variable @w.low : tensor<8xbf16> role "derived"

// -----

func.func @lossy_pair(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = amp.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  // expected-error@+1 {{widens what a cast from 'f32' to 'bf16' has rounded}}
  %1 = amp.cast %0 : (tensor<8xbf16>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

#high = #amp.decision<compute = f32, accumulate = f32, storage = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
// Not unscaled.
module attributes {amp.loss_scale = "dynamic"} {
  func.func @step(%w: tensor<8xf32>, %scale: tensor<f32>, %lr: tensor<f32>, %ok: tensor<i1>) -> tensor<8xf32> {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{reads a gradient that is still scaled}}
    %w1 = mpc.sgd %w, %g, %lr, %ok {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<compute = f32, accumulate = f32, storage = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
// Unscaled twice.
module attributes {amp.loss_scale = "dynamic"} {
  func.func @step(%w: tensor<8xf32>, %scale: tensor<f32>, %lr: tensor<f32>, %ok: tensor<i1>) -> tensor<8xf32> {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{unscales what carries no loss scale}}
    %uu = amp.unscale %u, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %w1 = mpc.sgd %w, %uu, %lr, %ok {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<compute = f32, accumulate = f32, storage = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
// Clipped before it is unscaled.
module attributes {amp.loss_scale = "dynamic"} {
  func.func @step(%w: tensor<8xf32>, %scale: tensor<f32>, %lr: tensor<f32>, %ok: tensor<i1>) -> tensor<8xf32> {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{reads a gradient that is still scaled}}
    %c, %norm = mpc.clip_grad_norm %g {max_norm = 1.0 : f64, amp.decision = #high} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<f32>)
    // expected-error@+1 {{unscales what carries no loss scale}}
    %u = amp.unscale %c, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<compute = f32, accumulate = f32, storage = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
// Returned as it is.
module attributes {amp.loss_scale = "dynamic"} {
  func.func @step(%w: tensor<8xf32>, %scale: tensor<f32>, %lr: tensor<f32>, %ok: tensor<i1>) -> tensor<8xf32> {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{returns a scaled value as result 0}}
    return %g : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<compute = f32, accumulate = f32, storage = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
// Scaled though the module says it is not.
module attributes {amp.loss_scale = "none"} {
  func.func @step(%w: tensor<8xf32>, %scale: tensor<f32>, %lr: tensor<f32>, %ok: tensor<i1>) -> tensor<8xf32> {
    %one = mpc.constant dense<1.0> : tensor<f32>
    // expected-error@+1 {{scales in a module whose loss scale is none}}
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %w : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<compute = f32, accumulate = f32, storage = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
// Weight decay added to a gradient that is still scaled.
module attributes {amp.loss_scale = "dynamic"} {
  func.func @step(%w: tensor<8xf32>, %scale: tensor<f32>, %lr: tensor<f32>, %ok: tensor<i1>) -> tensor<8xf32> {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{adds a value that carries the loss scale to one that does not}}
    %d = mpc.add %g, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %u = amp.unscale %d, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<compute = f32, accumulate = f32, storage = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
// Not guarded.
module attributes {amp.loss_scale = "dynamic"} {
  func.func @step(%w: tensor<8xf32>, %scale: tensor<f32>, %lr: tensor<f32>, %ok: tensor<i1>) -> tensor<8xf32> {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{expected a condition, since gradients can overflow}}
    %w1 = mpc.sgd %w, %u, %lr {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<compute = f32, accumulate = f32, storage = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed, native = true, casts_in = 0, casts_out = 0, casts_fused = 0, cost_low = 0, cost_high = 0>
func.func @optimizer_reads_low(%w: tensor<8xf32>, %g: tensor<8xbf16>, %lr: tensor<f32>) -> tensor<8xf32> {
  // expected-error@+1 {{expected fp32 at least, found 'tensor<8xbf16>'}}
  %0 = mpc.sgd %w, %g, %lr {amp.decision = #high} : (tensor<8xf32>, tensor<8xbf16>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

mpc.variable @w : tensor<8xf32> role "parameter"
mpc.variable @w.low : tensor<8xbf16> role "derived"
// expected-error@+1 {{updates @w but does not write its copy @w.low}}
func.func @copy_lags_behind(%w: tensor<8xf32> {mpc.state = @w}) -> (tensor<8xf32> {mpc.updates = @w}) {
  return %w : tensor<8xf32>
}

// -----

func.func @unexpanded() -> tensor<f32> {
  // expected-error@+1 {{left unexpanded by the stages before}}
  %0 = mpc.gradient_seed : tensor<f32>
  return %0 : tensor<f32>
}
