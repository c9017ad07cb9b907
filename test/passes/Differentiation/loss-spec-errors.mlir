// RUN: mpc-opt %s -verify-diagnostics -mpc-add-loss=loss=hinge
// RUN: not mpc-opt %s -mpc-add-loss=loss=mse@z 2>&1 | FileCheck %s

// CHECK: error: no output or node is called 'z'; the model's outputs are: y
// expected-error@+1 {{unknown loss 'hinge'; expected softmax_cross_entropy, cross_entropy, nll, mse, l1, huber, smooth_l1, bce, bce_with_logits, kl_div, focal, sigmoid_focal, dice, sigmoid_dice, each with an optional @OUTPUT, or output:NAME of a loss that the model computes itself}}
module {
  func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
      -> (tensor<4x8xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    return %x : tensor<4x8xf32>
  }
}
