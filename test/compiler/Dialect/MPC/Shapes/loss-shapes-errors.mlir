// RUN: mpc-opt %s -split-input-file -verify-diagnostics

// Without a reduction, the losses have the shape of the labels.
func.func @losses(%s: tensor<4x10x6xf32>, %t: tensor<4x6xi64>, %w: tensor<10xf32>) {
  %0, %1 = mpc.softmax_cross_entropy_loss %s, %t, %w {reduction = #mpc.reduction<none>} : (tensor<4x10x6xf32>, tensor<4x6xi64>, tensor<10xf32>) -> (tensor<4x6xf32>, tensor<4x10x6xf32>)
  %2 = mpc.nll_loss %1, %t {reduction = #mpc.reduction<sum>} : (tensor<4x10x6xf32>, tensor<4x6xi64>) -> tensor<f32>
  %3 = mpc.accuracy %s, %t : (tensor<4x10x6xf32>, tensor<4x6xi64>) -> tensor<4x6xf32>
  return
}

// -----

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

func.func @labels_smoothed_away(%s: tensor<32x10xf32>, %t: tensor<32xi64>) -> tensor<f32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected label_smoothing in [0, 1), found 1.0}}
  %0, %1 = mpc.softmax_cross_entropy_loss %s, %t {label_smoothing = 1.0 : f64} : (tensor<32x10xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<32x10xf32>)
  return %0 : tensor<f32>
}

// -----

func.func @weights_of_other_classes(%s: tensor<4x10xf32>, %t: tensor<4xi64>, %w: tensor<9xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected 10 class weights, found [9]}}
  %0 = mpc.nll_loss %s, %t, %w : (tensor<4x10xf32>, tensor<4xi64>, tensor<9xf32>) -> tensor<f32>
  return
}

// -----

func.func @gradient_of_another_reduction(%d: tensor<4xf32>, %p: tensor<4x10xf32>, %t: tensor<4xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected d_loss of shape [], found [4]}}
  %0 = mpc.softmax_cross_entropy_loss_grad %d, %p, %t : (tensor<4xf32>, tensor<4x10xf32>, tensor<4xi64>) -> tensor<4x10xf32>
  return
}
