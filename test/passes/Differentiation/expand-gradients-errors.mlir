// RUN: mpc-opt %s -split-input-file -verify-diagnostics -mpc-expand-gradients

// A derivative of a derivative has no rule.
func.func @second_order(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{'mpc.relu_grad' op has no gradient; freeze the parameters before it with --freeze}}
  %0 = mpc.relu_grad %dy, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %g = mpc.gradient %0 wrt %x : tensor<8xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// -----

// An op without a rule that no derivative passes is no error.
func.func @beside(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.relu_grad %dy, %dy : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mpc.mul %x, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %g = mpc.gradient %1 wrt %x : tensor<8xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}
