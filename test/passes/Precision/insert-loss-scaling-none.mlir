// Gradients that are zero everywhere, such as through a sign, have no backward
// pass: nothing is scaled, and the update needs no condition.
// RUN: mpc-opt %s -amp-insert-loss-scaling="loss-scale=dynamic" | FileCheck %s

// CHECK: amp.loss_scale = #amp.loss_scale<none>
// CHECK-NOT: role loss_scale
mpc.variable @w : tensor<8xf32> role parameter

// CHECK: mpc.sgd %{{.*}}, %{{.*}}, %{{.*}} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %lr: tensor<f32> {mpc.input = "learning_rate", mpc.role = #mpc.role<scalar>})
    -> (tensor<8xf32> {mpc.updates = @w}) {
  %g = mpc.constant dense<0.0> : tensor<8xf32>
  %next = mpc.sgd %w, %g, %lr {mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %next : tensor<8xf32>
}
