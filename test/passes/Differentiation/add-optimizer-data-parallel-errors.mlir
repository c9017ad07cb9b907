// RUN: not mpc-opt %s -mpc-add-optimizer="data-parallel given-gradients" 2>&1 | FileCheck %s
// RUN: mpc-opt %s -mpc-add-optimizer="given-gradients" | FileCheck %s --check-prefix=ALONE

// A model's own update reads gradients of one rank.
// CHECK: error: cannot train on several ranks: the model brings its own update
// ALONE: func @update
mpc.variable @w : tensor<8xf32> role parameter
mpc.variable @w.grad : tensor<8xf32> role accumulator
func.func @update(%w: tensor<8xf32> {mpc.state = @w}, %g: tensor<8xf32> {mpc.state = @w.grad},
                  %lr: tensor<f32> {mpc.input = "lr", mpc.role = #mpc.role<scalar>})
    -> (tensor<8xf32> {mpc.updates = @w}) {
  %0 = mpc.sgd %w, %g, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
