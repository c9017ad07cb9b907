// RUN: mpc-opt %s -split-input-file -verify-diagnostics

// Statistics keep the reduced axes, with one element.
func.func @norms_that_fit(%x: tensor<2x3x4x5xf32>, %s: tensor<3x1x1xf32>, %c: tensor<3xf32>) {
  %0, %1, %2 = mpc.layer_norm %x, %s {axes = array<i64: 2, 3>, epsilon = 1.0e-5 : f64} : (tensor<2x3x4x5xf32>, tensor<3x1x1xf32>) -> (tensor<2x3x4x5xf32>, tensor<2x3x1x1xf32>, tensor<2x3x1x1xf32>)
  %3 = mpc.batch_norm_inference %x, %c, %c, %c, %c {epsilon = 1.0e-5 : f64} : (tensor<2x3x4x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x5xf32>
  return
}

// -----

func.func @channel_vectors_of_the_wrong_size(%x: tensor<2x3x4x4xf32>, %c: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{expected a vector of 3 elements, one per channel, found [4]}}
  %0 = "mpc.batch_norm_inference"(%x, %c, %c, %c, %c) {epsilon = 1.0e-5 : f64} : (tensor<2x3x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3x4x4xf32>
  return
}

// -----

func.func @layer_norm_over_no_axis_of_its_input(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not in [0, 2)}}
  %0, %1, %2 = mpc.layer_norm %x, %s {axes = array<i64: 2>, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  return
}

// -----

func.func @layer_norm_scale_of_another_shape(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{shape [4] does not broadcast to the input's [4, 8]}}
  %0, %1, %2 = mpc.layer_norm %x, %s {axes = array<i64: 1>, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  return
}

// -----

func.func @rms_norm_axes_out_of_order(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected ascending axes}}
  %0, %1 = mpc.rms_norm %x, %s {axes = array<i64: 1, 0>, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<1x1xf32>)
  return
}

// -----

func.func @rms_norm_grad_of_other_statistics(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %inv: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected statistics of shape [4, 1], found [4]}}
  %0, %1 = mpc.rms_norm_grad %x, %x, %s, %inv {axes = array<i64: 1>} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  return
}
