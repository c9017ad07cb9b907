// RUN: mpc-opt %s -split-input-file -amp-verify-precision | FileCheck %s

// A module that keeps the rules passes unchanged: an f16 contraction that sums
// in f32, with operands cast once, and a denied op in fp32.

#low = #amp.decision<operands = [f16, f16], results = [f32], compute = f16, class = allow, rule = "test", why = "", reason = allow_list, path = [], evidence = assumed>
#deny = #amp.decision<operands = [f32], results = [f32], compute = f32, class = deny, rule = "test", why = "", reason = deny_list, path = [], evidence = assumed>

module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed">} {
  // CHECK-LABEL: func.func @kept
  // CHECK: %[[LOW:.*]] = amp.cast
  // CHECK: %[[Y:.*]] = mpc.matmul %[[LOW]], %[[LOW]]
  // CHECK: mpc.exp %[[Y]]
  func.func @kept(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = amp.cast %x : (tensor<4x4xf32>) -> tensor<4x4xf16>
    %1 = mpc.matmul %0, %0 {amp.decision = #low} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
    %2 = mpc.exp %1 {amp.decision = #deny} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %2 : tensor<4x4xf32>
  }
}

// -----

// The verifier proves a backward pass of ops that are linear in the gradient,
// with a zero, an optimizer op's update, and an update in other ops.
#high = #amp.decision<operands = [any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high2 = #amp.decision<operands = [any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high3 = #amp.decision<operands = [f32, f32], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high4 = #amp.decision<operands = [any, any, any], results = [f32], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>
#high5 = #amp.decision<operands = [any], results = [], compute = f32, class = clear, rule = "test", why = "", reason = mode, path = [], evidence = assumed>

// CHECK-LABEL: func.func @step
module attributes {amp.loss_scale = #amp.loss_scale<static>} {
  mpc.variable @w : tensor<4x4xf32> role parameter
  mpc.variable @m : tensor<4x4xf32> role optimizer_state
  mpc.variable @n : tensor<i64> role counter
  mpc.variable @mpc.micro_step : tensor<i64> role counter
  mpc.variable @mean : tensor<4x4xf32> role statistic
  func.func @step(%w: tensor<4x4xf32> {mpc.state = @w}, %m: tensor<4x4xf32> {mpc.state = @m},
                  %n: tensor<i64> {mpc.state = @n}, %micro: tensor<i64> {mpc.state = @mpc.micro_step},
                  %mean: tensor<4x4xf32> {mpc.state = @mean},
                  %c: tensor<4x4xi1>, %scale: tensor<f32>, %lr: tensor<f32>)
      -> (tensor<4x4xf32> {mpc.updates = @w}, tensor<4x4xf32> {mpc.updates = @m},
          tensor<i64> {mpc.updates = @n}, tensor<i64> {mpc.updates = @mpc.micro_step},
          tensor<4x4xf32> {mpc.updates = @mean}) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %zero = mpc.constant dense<0.0> : tensor<4x4xf32>
    %seed = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %a = mpc.expand %seed {amp.decision = #high} : (tensor<f32>) -> tensor<4x4xf32>
    %b = mpc.div %a, %w {amp.decision = #high2} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %d = mpc.select %c, %b, %zero {amp.decision = #high2} : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %e = mpc.transpose %d {perm = array<i64: 1, 0>, amp.decision = #high} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %f = mpc.matmul %w, %e {amp.decision = #high3} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = mpc.relu_grad %f, %w {amp.decision = #high2} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %i = mpc.add %h, %b {amp.decision = #high2} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %u = amp.unscale %i, %scale : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %ok = amp.all_finite %u : (tensor<4x4xf32>) -> tensor<i1>
    %w1 = mpc.sgd %w, %u, %lr, %ok {amp.decision = #high4} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<i1>) -> tensor<4x4xf32>
    %sum = mpc.mul %m, %u {mpc.phase = #mpc.phase<optimizer>, amp.decision = #high2} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %m1 = mpc.select %ok, %sum, %m {mpc.phase = #mpc.phase<optimizer>, amp.decision = #high2} : (tensor<i1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %n1 = mpc.increment %n, %ok : (tensor<i64>, tensor<i1>) -> tensor<i64>
    %micro1 = mpc.increment %micro : (tensor<i64>) -> tensor<i64>
    %mean0 = mpc.add %mean, %w {amp.decision = #high2} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %inf = mpc.is_inf %mean0 {amp.decision = #high5} : (tensor<4x4xf32>) -> tensor<4x4xi1>
    %nan = mpc.is_nan %mean0 {amp.decision = #high5} : (tensor<4x4xf32>) -> tensor<4x4xi1>
    %broken = mpc.or %inf, %nan : (tensor<4x4xi1>, tensor<4x4xi1>) -> tensor<4x4xi1>
    %mean1 = mpc.select %broken, %mean, %mean0 {amp.decision = #high2} : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %w1, %m1, %n1, %micro1, %mean1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<i64>, tensor<i64>, tensor<4x4xf32>
  }
}

// -----

// A flag forces a denied op. In the model, a value has 16 bits. A concatenation
// of a low and a rounded value is low with reason.
#forced = #amp.decision<operands = [f32], results = [f16], compute = f32, class = deny, rule = "test", why = "", reason = force_low, path = [], evidence = assumed>
#half = #amp.decision<operands = [f16], results = [f16], compute = f32, model = [f16], class = deny, rule = "test", why = "", reason = model_type, path = [], evidence = assumed>
#low = #amp.decision<operands = [f16, f16], results = [f16], compute = f32, class = clear, rule = "test", why = "", reason = between_low, path = [], evidence = assumed>

// CHECK-LABEL: func.func @reasons_that_hold
module attributes {amp.mode = #amp.mode<"16-mixed">, amp.request = #amp.request<"16-mixed", force_low = ["^e$"]>} {
  func.func @reasons_that_hold(%x: tensor<4x4xf32>, %y: tensor<4x4xf16>) -> tensor<4x8xf32> {
    %0 = mpc.exp %x {amp.decision = #forced} : (tensor<4x4xf32>) -> tensor<4x4xf16> loc("e")
    %1 = mpc.exp %y {amp.decision = #half} : (tensor<4x4xf16>) -> tensor<4x4xf16> loc("own")
    %2 = amp.cast %x : (tensor<4x4xf32>) -> tensor<4x4xf16>
    %3 = mpc.concat %0, %2 {axis = 1 : i64, amp.decision = #low} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x8xf16>
    %4 = amp.cast %3 : (tensor<4x8xf16>) -> tensor<4x8xf32>
    return %4 : tensor<4x8xf32>
  }
}
