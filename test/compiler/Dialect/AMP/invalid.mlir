// RUN: mpc-opt %s -split-input-file -verify-diagnostics

func.func @cast_changes_shape(%x: tensor<8xf32>) -> tensor<4xbf16> {
  // expected-error@+1 {{requires the same shape for all operands and results}}
  %0 = amp.cast %x : (tensor<8xf32>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

func.func @cast_of_integers(%x: tensor<8xi64>) -> tensor<8xf32> {
  // expected-error@+1 {{operand #0 must be}}
  %0 = amp.cast %x : (tensor<8xi64>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @decision_of_another_kind(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{expected amp.decision to be a decision, found "bf16"}}
  %0 = mpc.relu %x {amp.decision = "bf16"} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @scale_that_shrinks_when_it_grows(%s: tensor<f32>, %g: tensor<i64>, %h: tensor<i64>, %ok: tensor<i1>) {
  // expected-error@+1 {{expected growth_factor of at least 1, found 5.0}}
  %0:3 = amp.update_scale %s, %g, %h, %ok {growth_factor = 0.5 : f64, backoff_factor = 0.5 : f64, growth_interval = 2000 : i64, min_scale = 1.0 : f64, max_scale = 2.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
  return
}

// -----

func.func @backoff_that_does_not_back_off(%s: tensor<f32>, %g: tensor<i64>, %h: tensor<i64>, %ok: tensor<i1>) {
  // expected-error@+1 {{expected backoff_factor between 0 and 1, found 1.0}}
  %0:3 = amp.update_scale %s, %g, %h, %ok {growth_factor = 2.0 : f64, backoff_factor = 1.0 : f64, growth_interval = 2000 : i64, min_scale = 1.0 : f64, max_scale = 2.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
  return
}

// -----

func.func @interval_of_nothing(%s: tensor<f32>, %g: tensor<i64>, %h: tensor<i64>, %ok: tensor<i1>) {
  // expected-error@+1 {{expected growth_interval of at least 1, found 0}}
  %0:3 = amp.update_scale %s, %g, %h, %ok {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64, growth_interval = 0 : i64, min_scale = 1.0 : f64, max_scale = 2.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
  return
}

// -----

func.func @bounds_that_cross(%s: tensor<f32>, %g: tensor<i64>, %h: tensor<i64>, %ok: tensor<i1>) {
  // expected-error@+1 {{expected 0 < min_scale <= max_scale}}
  %0:3 = amp.update_scale %s, %g, %h, %ok {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64, growth_interval = 2000 : i64, min_scale = 4.0 : f64, max_scale = 2.0 : f64, hysteresis = 1 : i64} : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
  return
}

// -----

func.func @unscale_changes_shape(%g: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{all of {grad, output} have same shape}}
  %0 = amp.unscale %g, %s : (tensor<8xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @seed_changes_shape(%seed: tensor<f32>, %s: tensor<f32>) {
  // expected-error@+1 {{all of {seed, output} have same shape}}
  %0 = amp.scale_loss %seed, %s : (tensor<f32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @scale_of_each_element(%g: tensor<8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{operand #1 must be f32 or f64 scalar}}
  %0 = amp.unscale %g, %s : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @flag_of_each_element(%g: tensor<8xf32>) {
  // expected-error@+1 {{result #0 must be i1 scalar}}
  %0 = amp.all_finite %g : (tensor<8xf32>) -> tensor<8xi1>
  return
}

// -----

// expected-error@+1 {{expected a mode such as #amp.mode<"16-mixed">, found "16-mixed"}}
module attributes {amp.mode = "16-mixed"} {
}

// -----

// expected-error@+1 {{expected a kind of loss scale such as #amp.loss_scale<dynamic>, found 1024 : i64}}
module attributes {amp.loss_scale = 1024 : i64} {
}

// -----

// expected-error@+1 {{unknown mode "8-mixed"}}
module attributes {amp.mode = #amp.mode<"8-mixed">} {
}

// -----

// expected-error@+1 {{no op has an attribute 'amp.loss_scaling'}}
module attributes {amp.loss_scaling = #amp.loss_scale<dynamic>} {
}

// -----

// expected-error@+1 {{expected a request such as #amp.request<"16-mixed">, found "16-mixed"}}
module attributes {amp.request = "16-mixed"} {
}

// -----

// expected-error@+1 {{unknown precision '8-mixed', expected 32-true, 16-mixed, bf16-mixed or 64-true}}
module attributes {amp.request = #amp.request<"8-mixed">} {
}

// -----

// expected-error@+1 {{a request has no field 'scale'}}
module attributes {amp.request = #amp.request<"16-mixed", scale = 1.0>} {
}

// -----

// expected-error@+1 {{expected a loss scale above 0}}
module attributes {amp.request = #amp.request<"16-mixed", loss_scale = 0.0>} {
}

// -----

func.func @id(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{expected amp.id to be a string, found 1 : i64}}
  %0 = mpc.neg %x {amp.id = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @followers(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{expected amp.followers to be an array of strings, found [1]}}
  %0 = mpc.neg %x {amp.followers = [1]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @result_of_any_type(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected float types as results, found 'none'}}
  %0 = mpc.relu %x {amp.decision = #amp.decision<operands = [any], results = [any], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @operand_of_an_integer_type(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected float types or any as operands, found 'i32'}}
  %0 = mpc.relu %x {amp.decision = #amp.decision<operands = [i32], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @mark_with_a_value(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{expected amp.tf32 to have no value, found true}}
  %0 = mpc.matmul %x, %x {amp.tf32 = true} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

// expected-error@+1 {{expected true or false}}
module attributes {amp.request = #amp.request<"32-true", tf32 = 1>} {
}

// -----

func.func @source_without_kind(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected sources such as [{kind = "constant", value = 1.0e+06}], found [{name = "c"}]}}
  %0 = mpc.relu %x {amp.decision = #amp.decision<operands = [any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], sources = [{name = "c"}], evidence = assumed>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}
