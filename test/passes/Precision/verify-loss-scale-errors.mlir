// RUN: mpc-opt %s -split-input-file -amp-verify-precision -verify-diagnostics

// The verifier interprets the loss scale: each graph here breaks one of its rules.

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The gradient is not unscaled.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  // expected-error@+1 {{updates parameters with gradients that were never scaled and unscaled}}
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %g : (tensor<8xf32>) -> tensor<i1>
    // expected-error@+1 {{reads a gradient that is still scaled}}
    %w1 = mpc.sgd %w, %g, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The gradient is not scaled.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  // expected-error@+1 {{updates parameters with gradients that were never scaled and unscaled}}
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %g = mpc.mul %w, %one {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %g : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %g, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The loss is scaled twice.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %s0 = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    // expected-error@+2 {{scales what carries a loss scale already}}
    // expected-error@+1 {{expected a gradient seed of ones}}
    %seed = amp.scale_loss %s0, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The gradient is unscaled twice.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %h = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{unscales what carries no loss scale}}
    %u = amp.unscale %h, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u, %h : (tensor<8xf32>, tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The gradient is unscaled by another value.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{unscales by another value than the loss was scaled by}}
    %u = amp.unscale %g, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The square of a multiple of the scale is a multiple of its square.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %h = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{multiplies two values that carry the loss scale}}
    %g = mpc.mul %h, %h {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// Bounds apply to a gradient that is still scaled.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %h = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{is not linear, but reads a value that carries the loss scale}}
    %g = mpc.clip %h {min = -1.0 : f64, max = 1.0 : f64, amp.decision = #high2, mpc.phase = #mpc.phase<backward>} : (tensor<8xf32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [f32, f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The gradient is clipped by its norm before it is unscaled.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{reads a gradient that is still scaled}}
    %c, %norm = mpc.clip_grad_norm %g {max_norm = 1.0 : f64, amp.decision = #high2} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<f32>)
    // expected-error@+1 {{unscales what carries no loss scale}}
    %u = amp.unscale %c, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// A select mixes a gradient and a parameter.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>, %c: tensor<8xi1>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %h = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{joins a value that carries the loss scale to one that does not}}
    %g = mpc.select %c, %h, %w {amp.decision = #high} : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// Weight decay is added to a gradient that is still scaled.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %h = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{adds a value that carries the loss scale to one that does not}}
    %g = mpc.add %h, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The scale has a type that 65536 overflows.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    // expected-error@+1 {{rounds the loss scale itself to 'f16'}}
    %low = amp.cast %seed : (tensor<f32>) -> tensor<f16>
    // expected-error@+1 {{reads operand 1 through a cast that rounds, but does not multiply it}}
    %g = mpc.mul %w, %low {amp.decision = #high} : (tensor<8xf32>, tensor<f16>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The gradient is unscaled into a type that loses small values.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{expected the unscaled gradient in fp32 at least, found 'tensor<8xf16>'}}
    %h = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf16>
    %u = amp.cast %h : (tensor<8xf16>) -> tensor<8xf32>
    %ok = amp.all_finite %h : (tensor<8xf16>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The function returns the scaled gradient.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32>) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    // expected-error@+1 {{returns a scaled value as result 1}}
    return %w1, %g : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The loss is scaled although the module says that it is not.
module attributes {amp.loss_scale = #amp.loss_scale<none>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    // expected-error@+1 {{scales in a module whose loss scale is none}}
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{scales in a module whose loss scale is none}}
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The update has no condition.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    // expected-error@+1 {{expected a condition, since gradients can overflow}}
    %w1 = mpc.sgd %w, %u, %lr {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{updates @w even in a step with a gradient that is not finite}}
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The condition always holds.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = mpc.constant dense<true> : tensor<i1>
    // expected-error@+1 {{expected amp.all_finite of all gradients of the update as the condition}}
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The condition covers one of two gradients, and a count has none.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @v : tensor<8xf32> role parameter
  mpc.variable @n : tensor<i64> role counter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>, %v: tensor<8xf32> {mpc.state = @v}, %n: tensor<i64> {mpc.state = @n}) -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @v}, tensor<i64> {mpc.updates = @n}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %h = mpc.mul %v, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %x = amp.unscale %h, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    // expected-error@+1 {{expected amp.all_finite of all gradients of the update as the condition}}
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    // expected-error@+1 {{expected amp.all_finite of all gradients of the update as the condition}}
    %v1 = mpc.sgd %v, %x, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    %n1 = mpc.increment %n : (tensor<i64>) -> tensor<i64>
    // expected-error@+1 {{updates @n even in a step with a gradient that is not finite}}
    return %w1, %v1, %n1 : tensor<8xf32>, tensor<8xf32>, tensor<i64>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// An op of the model's own changes state, and a parameter takes another's new
// value.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @v : tensor<8xf32> role parameter
  mpc.variable @m : tensor<8xf32> role optimizer_state
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>, %v: tensor<8xf32> {mpc.state = @v}, %m: tensor<8xf32> {mpc.state = @m}) -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @v}, tensor<8xf32> {mpc.updates = @m}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    %m1 = mpc.add %m, %u {amp.decision = #high, mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    // expected-error@+2 {{updates @v even in a step with a gradient that is not finite}}
    // expected-error@+1 {{updates @m even in a step with a gradient that is not finite}}
    return %w1, %w1, %m1 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// An accumulator takes a gradient without the scale.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @sum : tensor<8xf32> role accumulator
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @sum}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    // expected-error@+1 {{returns a sum without the loss scale as result 1}}
    return %w1, %w : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The gradient is padded with an unscaled value.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %s = mpc.slice %g {amp.decision = #high2, offsets = array<i64: 0>, sizes = array<i64: 4>} : (tensor<8xf32>) -> tensor<4xf32>
    // expected-error@+1 {{joins a value that carries the loss scale to one that does not}}
    %p = mpc.pad %s {amp.decision = #high2, offsets = array<i64: 0>, shape = array<i64: 8>, value = 1.0 : f64} : (tensor<4xf32>) -> tensor<8xf32>
    %u = amp.unscale %p, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The gradient has the scale in one branch only.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %c: tensor<i1>, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    // expected-error@+1 {{gives a value that has the loss scale in some iterations or branches and not in others}}
    %g = mpc.if %c captured(%w, %seed : tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>) {
    ^bb0(%a: tensor<8xf32>, %s: tensor<f32>):
      %0 = mpc.mul %a, %s {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
      mpc.yield %0 : tensor<8xf32>
    } else {
    ^bb0(%a: tensor<8xf32>, %s: tensor<f32>):
      mpc.yield %a : tensor<8xf32>
    }
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// Zeros of a branch are a multiple of any scale.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %c: tensor<i1>, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.if %c captured(%w, %seed : tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>) {
    ^bb0(%a: tensor<8xf32>, %s: tensor<f32>):
      %0 = mpc.mul %a, %s {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
      mpc.yield %0 : tensor<8xf32>
    } else {
    ^bb0(%a: tensor<8xf32>, %s: tensor<f32>):
      %1 = mpc.constant dense<0.0> : tensor<8xf32>
      mpc.yield %1 : tensor<8xf32>
    }
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// So are products and sums of zeros, such as the gradient of a branch that has
// none.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %zero = mpc.constant dense<0.0> : tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %a = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %p = mpc.mul %zero, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %n = mpc.neg %p {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xf32>
    %b = mpc.add %n, %zero {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %g = mpc.add %a, %b {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// Other functions of zeros need not be zero.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %zero = mpc.constant dense<0.0> : tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %a = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %b = mpc.exp %zero {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error@+1 {{adds a value that carries the loss scale to one that does not}}
    %g = mpc.add %a, %b {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The sum of zeros and another value is not zero.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %zero = mpc.constant dense<0.0> : tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %a = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %b = mpc.add %zero, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    // expected-error@+1 {{adds a value that carries the loss scale to one that does not}}
    %g = mpc.add %a, %b {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// Zeros padded with other values are not zero.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %zero = mpc.constant dense<0.0> : tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %a = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %few = mpc.constant dense<0.0> : tensor<6xf32>
    %b = mpc.pad %few {offsets = array<i64: 1>, shape = array<i64: 8>, value = 1.0 : f64, amp.decision = #high2} : (tensor<6xf32>) -> tensor<8xf32>
    // expected-error@+1 {{adds a value that carries the loss scale to one that does not}}
    %g = mpc.add %a, %b {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// A product of all elements has the scale as often as there are elements.
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<8xf32> {mpc.updates = @w}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %a = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    // expected-error@+1 {{is not linear, but reads a value that carries the loss scale}}
    %b = mpc.reduce_prod %a {axes = array<i64: 0>, keepdims = true, amp.decision = #high2} : (tensor<8xf32>) -> tensor<1xf32>
    %g = mpc.expand %b {amp.decision = #high2} : (tensor<1xf32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1 : tensor<8xf32>
  }
}
