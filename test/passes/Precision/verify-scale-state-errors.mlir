// RUN: mpc-opt %s -split-input-file -amp-verify-precision -verify-diagnostics

// The loss scale and running statistics are state that changes even in skipped
// steps. The verifier proves each change.

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The verifier accepts this graph. All graphs below have one change.
module attributes {amp.loss_scale = #amp.loss_scale<dynamic>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @mean : tensor<8xf32> role statistic
  mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 1.0
  mpc.variable @mpc.good_steps : tensor<i64> role loss_scale
  mpc.variable @mpc.hysteresis : tensor<i64> role loss_scale
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %mean: tensor<8xf32> {mpc.state = @mean},
                  %scale: tensor<f32> {mpc.state = @mpc.loss_scale}, %good: tensor<i64> {mpc.state = @mpc.good_steps},
                  %left: tensor<i64> {mpc.state = @mpc.hysteresis}, %lr: tensor<f32>)
      -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @mean}, tensor<f32> {mpc.updates = @mpc.loss_scale},
          tensor<i64> {mpc.updates = @mpc.good_steps}, tensor<i64> {mpc.updates = @mpc.hysteresis}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %mean0 = mpc.mul %mean, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %inf = mpc.is_inf %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %nan = mpc.is_nan %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %broken = mpc.or %inf, %nan : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %mean1 = mpc.select %broken, %mean, %mean0 {amp.decision = #high} : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    %s1, %good1, %left1 = amp.update_scale %scale, %good, %left, %ok {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64, growth_interval = 2000 : i64, min_scale = 1.0 : f64, max_scale = 65536.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
    return %w1, %mean1, %s1, %good1, %left1 : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i64>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// A constant drives the scale.
module attributes {amp.loss_scale = #amp.loss_scale<dynamic>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @mean : tensor<8xf32> role statistic
  mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 1.0
  mpc.variable @mpc.good_steps : tensor<i64> role loss_scale
  mpc.variable @mpc.hysteresis : tensor<i64> role loss_scale
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %mean: tensor<8xf32> {mpc.state = @mean},
                  %scale: tensor<f32> {mpc.state = @mpc.loss_scale}, %good: tensor<i64> {mpc.state = @mpc.good_steps},
                  %left: tensor<i64> {mpc.state = @mpc.hysteresis}, %lr: tensor<f32>)
      -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @mean}, tensor<f32> {mpc.updates = @mpc.loss_scale},
          tensor<i64> {mpc.updates = @mpc.good_steps}, tensor<i64> {mpc.updates = @mpc.hysteresis}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %mean0 = mpc.mul %mean, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %inf = mpc.is_inf %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %nan = mpc.is_nan %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %broken = mpc.or %inf, %nan : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %mean1 = mpc.select %broken, %mean, %mean0 {amp.decision = #high} : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    %yes = mpc.constant dense<true> : tensor<i1>
    // expected-error@+1 {{expected amp.all_finite of all gradients of the update as the condition}}
    %s1, %good1, %left1 = amp.update_scale %scale, %good, %left, %yes {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64, growth_interval = 2000 : i64, min_scale = 1.0 : f64, max_scale = 65536.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
    return %w1, %mean1, %s1, %good1, %left1 : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i64>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The new scale is not returned.
module attributes {amp.loss_scale = #amp.loss_scale<dynamic>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @mean : tensor<8xf32> role statistic
  mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 1.0
  mpc.variable @mpc.good_steps : tensor<i64> role loss_scale
  mpc.variable @mpc.hysteresis : tensor<i64> role loss_scale
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %mean: tensor<8xf32> {mpc.state = @mean},
                  %scale: tensor<f32> {mpc.state = @mpc.loss_scale}, %good: tensor<i64> {mpc.state = @mpc.good_steps},
                  %left: tensor<i64> {mpc.state = @mpc.hysteresis}, %lr: tensor<f32>)
      -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @mean}, tensor<f32> {mpc.updates = @mpc.loss_scale},
          tensor<i64> {mpc.updates = @mpc.good_steps}, tensor<i64> {mpc.updates = @mpc.hysteresis}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %mean0 = mpc.mul %mean, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %inf = mpc.is_inf %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %nan = mpc.is_nan %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %broken = mpc.or %inf, %nan : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %mean1 = mpc.select %broken, %mean, %mean0 {amp.decision = #high} : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    // expected-error@+1 {{computes a new loss scale that the function does not return}}
    %s1, %good1, %left1 = amp.update_scale %scale, %good, %left, %ok {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64, growth_interval = 2000 : i64, min_scale = 1.0 : f64, max_scale = 65536.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
    return %w1, %mean1, %scale, %good1, %left1 : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i64>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// Another value becomes the scale.
module attributes {amp.loss_scale = #amp.loss_scale<dynamic>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @mean : tensor<8xf32> role statistic
  mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 1.0
  mpc.variable @mpc.good_steps : tensor<i64> role loss_scale
  mpc.variable @mpc.hysteresis : tensor<i64> role loss_scale
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %mean: tensor<8xf32> {mpc.state = @mean},
                  %scale: tensor<f32> {mpc.state = @mpc.loss_scale}, %good: tensor<i64> {mpc.state = @mpc.good_steps},
                  %left: tensor<i64> {mpc.state = @mpc.hysteresis}, %lr: tensor<f32>)
      -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @mean}, tensor<f32> {mpc.updates = @mpc.loss_scale},
          tensor<i64> {mpc.updates = @mpc.good_steps}, tensor<i64> {mpc.updates = @mpc.hysteresis}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %mean0 = mpc.mul %mean, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %inf = mpc.is_inf %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %nan = mpc.is_nan %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %broken = mpc.or %inf, %nan : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %mean1 = mpc.select %broken, %mean, %mean0 {amp.decision = #high} : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    // expected-error@+1 {{computes a new loss scale that the function does not return}}
    %s1, %good1, %left1 = amp.update_scale %scale, %good, %left, %ok {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64, growth_interval = 2000 : i64, min_scale = 1.0 : f64, max_scale = 65536.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
    // expected-error@+1 {{changes @mpc.loss_scale by other means than amp.update_scale}}
    return %w1, %mean1, %one, %good1, %left1 : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i64>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// Nothing updates the scale.
module attributes {amp.loss_scale = #amp.loss_scale<dynamic>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @mean : tensor<8xf32> role statistic
  mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 1.0
  mpc.variable @mpc.good_steps : tensor<i64> role loss_scale
  mpc.variable @mpc.hysteresis : tensor<i64> role loss_scale
  // expected-error@+1 {{updates parameters but never the loss scale}}
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %mean: tensor<8xf32> {mpc.state = @mean},
                  %scale: tensor<f32> {mpc.state = @mpc.loss_scale}, %good: tensor<i64> {mpc.state = @mpc.good_steps},
                  %left: tensor<i64> {mpc.state = @mpc.hysteresis}, %lr: tensor<f32>)
      -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @mean}, tensor<f32> {mpc.updates = @mpc.loss_scale},
          tensor<i64> {mpc.updates = @mpc.good_steps}, tensor<i64> {mpc.updates = @mpc.hysteresis}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %mean0 = mpc.mul %mean, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %inf = mpc.is_inf %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %nan = mpc.is_nan %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %broken = mpc.or %inf, %nan : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %mean1 = mpc.select %broken, %mean, %mean0 {amp.decision = #high} : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    return %w1, %mean1, %scale, %good, %left : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i64>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// A statistic has no guard.
module attributes {amp.loss_scale = #amp.loss_scale<dynamic>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @mean : tensor<8xf32> role statistic
  mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 1.0
  mpc.variable @mpc.good_steps : tensor<i64> role loss_scale
  mpc.variable @mpc.hysteresis : tensor<i64> role loss_scale
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %mean: tensor<8xf32> {mpc.state = @mean},
                  %scale: tensor<f32> {mpc.state = @mpc.loss_scale}, %good: tensor<i64> {mpc.state = @mpc.good_steps},
                  %left: tensor<i64> {mpc.state = @mpc.hysteresis}, %lr: tensor<f32>)
      -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @mean}, tensor<f32> {mpc.updates = @mpc.loss_scale},
          tensor<i64> {mpc.updates = @mpc.good_steps}, tensor<i64> {mpc.updates = @mpc.hysteresis}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %mean0 = mpc.mul %mean, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high2} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    %s1, %good1, %left1 = amp.update_scale %scale, %good, %left, %ok {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64, growth_interval = 2000 : i64, min_scale = 1.0 : f64, max_scale = 65536.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
    // expected-error@+1 {{changes statistic @mean where the new value is not finite}}
    return %w1, %mean0, %s1, %good1, %left1 : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i64>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The guard of a statistic tests another value.
module attributes {amp.loss_scale = #amp.loss_scale<dynamic>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @mean : tensor<8xf32> role statistic
  mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 1.0
  mpc.variable @mpc.good_steps : tensor<i64> role loss_scale
  mpc.variable @mpc.hysteresis : tensor<i64> role loss_scale
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %mean: tensor<8xf32> {mpc.state = @mean},
                  %scale: tensor<f32> {mpc.state = @mpc.loss_scale}, %good: tensor<i64> {mpc.state = @mpc.good_steps},
                  %left: tensor<i64> {mpc.state = @mpc.hysteresis}, %lr: tensor<f32>)
      -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @mean}, tensor<f32> {mpc.updates = @mpc.loss_scale},
          tensor<i64> {mpc.updates = @mpc.good_steps}, tensor<i64> {mpc.updates = @mpc.hysteresis}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %mean0 = mpc.mul %mean, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %inf = mpc.is_inf %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %nan = mpc.is_nan %w {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %broken = mpc.or %inf, %nan : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %mean1 = mpc.select %broken, %mean, %mean0 {amp.decision = #high} : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    %s1, %good1, %left1 = amp.update_scale %scale, %good, %left, %ok {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64, growth_interval = 2000 : i64, min_scale = 1.0 : f64, max_scale = 65536.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
    // expected-error@+1 {{changes statistic @mean where the new value is not finite}}
    return %w1, %mean1, %s1, %good1, %left1 : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i64>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// The guard of a statistic misses -inf.
module attributes {amp.loss_scale = #amp.loss_scale<dynamic>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @mean : tensor<8xf32> role statistic
  mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 1.0
  mpc.variable @mpc.good_steps : tensor<i64> role loss_scale
  mpc.variable @mpc.hysteresis : tensor<i64> role loss_scale
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %mean: tensor<8xf32> {mpc.state = @mean},
                  %scale: tensor<f32> {mpc.state = @mpc.loss_scale}, %good: tensor<i64> {mpc.state = @mpc.good_steps},
                  %left: tensor<i64> {mpc.state = @mpc.hysteresis}, %lr: tensor<f32>)
      -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @mean}, tensor<f32> {mpc.updates = @mpc.loss_scale},
          tensor<i64> {mpc.updates = @mpc.good_steps}, tensor<i64> {mpc.updates = @mpc.hysteresis}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %mean0 = mpc.mul %mean, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %inf = mpc.is_inf %mean0 {negative = false, amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %nan = mpc.is_nan %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %broken = mpc.or %inf, %nan : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %mean1 = mpc.select %broken, %mean, %mean0 {amp.decision = #high} : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    %s1, %good1, %left1 = amp.update_scale %scale, %good, %left, %ok {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64, growth_interval = 2000 : i64, min_scale = 1.0 : f64, max_scale = 65536.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
    // expected-error@+1 {{changes statistic @mean where the new value is not finite}}
    return %w1, %mean1, %s1, %good1, %left1 : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i64>
  }
}

// -----

#high = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any], results = [], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
// A wide gradient is rounded, then unscaled.
module attributes {amp.loss_scale = #amp.loss_scale<dynamic>} {
  mpc.variable @w : tensor<8xf32> role parameter
  mpc.variable @mean : tensor<8xf32> role statistic
  mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 1.0
  mpc.variable @mpc.good_steps : tensor<i64> role loss_scale
  mpc.variable @mpc.hysteresis : tensor<i64> role loss_scale
  func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %mean: tensor<8xf32> {mpc.state = @mean},
                  %scale: tensor<f32> {mpc.state = @mpc.loss_scale}, %good: tensor<i64> {mpc.state = @mpc.good_steps},
                  %left: tensor<i64> {mpc.state = @mpc.hysteresis}, %lr: tensor<f32>)
      -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @mean}, tensor<f32> {mpc.updates = @mpc.loss_scale},
          tensor<i64> {mpc.updates = @mpc.good_steps}, tensor<i64> {mpc.updates = @mpc.hysteresis}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %mean0 = mpc.mul %mean, %w {amp.decision = #high} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %inf = mpc.is_inf %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %nan = mpc.is_nan %mean0 {amp.decision = #high2} : (tensor<8xf32>) -> tensor<8xi1>
    %broken = mpc.or %inf, %nan : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %mean1 = mpc.select %broken, %mean, %mean0 {amp.decision = #high} : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = mpc.mul %w, %seed {amp.decision = #high} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %r = amp.cast %g : (tensor<8xf32>) -> tensor<8xf16>
    // expected-error@+1 {{widens what a cast from 'f32' to 'f16' has rounded}}
    %u = amp.unscale %r, %scale : (tensor<8xf16>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high3} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
    %s1, %good1, %left1 = amp.update_scale %scale, %good, %left, %ok {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64, growth_interval = 2000 : i64, min_scale = 1.0 : f64, max_scale = 65536.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
    return %w1, %mean1, %s1, %good1, %left1 : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>, tensor<i64>
  }
}
