// RUN: mpc-opt %s -split-input-file -verify-diagnostics

func.func @labels_of_the_wrong_shape(%s: tensor<32x10xf32>, %t: tensor<31xi64>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected labels of shape [32], found [31]}}
  %0, %1 = "mpc.softmax_cross_entropy_loss"(%s, %t) : (tensor<32x10xf32>, tensor<31xi64>) -> (tensor<f32>, tensor<32x10xf32>)
  return
}

// -----

func.func @no_class(%s: tensor<32x0xf32>, %t: tensor<32xi64>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected scores of at least one class, found [32, 0]}}
  %0, %1 = "mpc.softmax_cross_entropy_loss"(%s, %t) : (tensor<32x0xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<32x0xf32>)
  return
}

// -----

func.func @unknown_decay_mode(%p: tensor<8xf32>, %lr: tensor<f32>, %t: tensor<i64>) {
  // expected-error@+2 {{expected ::mpc::DecayMode to be one of: l2, decoupled, decoupled_after, post}}
  // expected-error@+1 {{failed to parse MPC_DecayModeAttr}}
  %0, %1, %2 = mpc.adam %p, %p, %p, %p, %lr, %t {beta1 = 0.9 : f64, beta2 = 0.99 : f64, epsilon = 1.0e-8 : f64, decay_mode = #mpc.decay<cosine>} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @labels_smoothed_away(%s: tensor<32x10xf32>, %t: tensor<32xi64>) -> tensor<f32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected label_smoothing in [0, 1), found 1.0}}
  %0, %1 = mpc.softmax_cross_entropy_loss %s, %t {label_smoothing = 1.0 : f64} : (tensor<32x10xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<32x10xf32>)
  return %0 : tensor<f32>
}
