// RUN: mpc-opt %s -split-input-file -verify-diagnostics -mpc-expand-gradients

// A derivative of a derivative has no rule.
func.func @second_order(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{ops without a gradient: mpc.relu_grad x1; freeze the parameters before them with --freeze}}
  %0 = mpc.relu_grad %dy, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %g = mpc.gradient %0 wrt %x : tensor<8xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// -----

// All ops without a rule are reported at once.
func.func @several(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@unknown {{ops without a gradient: mpc.relu_grad x2 (node 'a'), mpc.tanh_grad x1 (node 'c'); freeze the parameters before them with --freeze}}
  %0 = mpc.relu_grad %dy, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("a")
  %1 = mpc.relu_grad %0, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("b")
  %2 = mpc.tanh_grad %1, %dy : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("c")
  %g = mpc.gradient %2 wrt %x : tensor<8xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// -----

// A loss of the statistics would treat them as constants.
func.func @statistics(%x: tensor<4x3xf32>, %s: tensor<3xf32>) -> tensor<4x3xf32> {
  // expected-error@+1 {{expected the loss to depend on output 0 of mpc.batch_norm alone, found that it reads output 3, which has no gradient; compute it from the input with ReduceMean, or freeze the parameters before the node with --freeze}}
  %y, %rm, %rv, %m, %i = mpc.batch_norm %x, %s, %s, %s, %s {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64}
      : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
      -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %l = mpc.mul %y, %m : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %g = mpc.gradient %l wrt %x : tensor<4x3xf32>, (tensor<4x3xf32>) -> (tensor<4x3xf32>)
  return %g : tensor<4x3xf32>
}

// -----

// An op without a rule is no error if no derivative passes it.
func.func @beside(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.relu_grad %dy, %dy : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mpc.mul %x, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %g = mpc.gradient %1 wrt %x : tensor<8xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// -----

// One value per channel minus its mean is 0, which gives a warning. More values give none.
func.func @single_values(%x: tensor<1x4x1x1xf32>, %more: tensor<1x4x2x1xf32>, %s: tensor<4xf32>) -> (tensor<1x4x1x1xf32>, tensor<1x4x2x1xf32>) {
  // expected-warning@+1 {{normalizes each channel over one value, so its result is constant and the layers before it learn nothing; use a larger --batch-size, or freeze these layers with --freeze}}
  %y, %mean, %inv, %rm, %rv = mpc.batch_norm %x, %s, %s, %s, %s {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : (tensor<1x4x1x1xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4x1x1xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %z, %mean2, %inv2, %rm2, %rv2 = mpc.batch_norm %more, %s, %s, %s, %s {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : (tensor<1x4x2x1xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4x2x1xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %g = mpc.gradient %y wrt %x : tensor<1x4x1x1xf32>, (tensor<1x4x1x1xf32>) -> (tensor<1x4x1x1xf32>)
  %h = mpc.gradient %z wrt %more : tensor<1x4x2x1xf32>, (tensor<1x4x2x1xf32>) -> (tensor<1x4x2x1xf32>)
  return %g, %h : tensor<1x4x1x1xf32>, tensor<1x4x2x1xf32>
}
