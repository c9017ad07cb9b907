// A constant loss scale that rounds usual gradients to zero gives a warning. The
// limit depends on the type that the mode stores gradients in.
// RUN: mpc-opt %s -amp-insert-loss-scaling="loss-scale=1e-30" 2>&1 | FileCheck %s --check-prefix=TINY
// RUN: mpc-opt %s -amp-insert-loss-scaling="loss-scale=0.0004" 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: mpc-opt %s -amp-insert-loss-scaling="loss-scale=0.0005" 2>&1 | FileCheck %s --check-prefix=ENOUGH
// RUN: mpc-opt %s -amp-insert-loss-scaling="loss-scale=none" 2>&1 | FileCheck %s --check-prefix=ENOUGH
// RUN: sed 's/16-mixed/bf16-mixed/' %s | mpc-opt -amp-insert-loss-scaling="loss-scale=1e-30" 2>&1 | FileCheck %s --check-prefix=ENOUGH
// RUN: sed 's/16-mixed/bf16-mixed/' %s | mpc-opt -amp-insert-loss-scaling="loss-scale=1e-37" 2>&1 | FileCheck %s --check-prefix=BF16

// TINY: warning: the loss scale 1e-30 rounds gradients below 2.98e+22 to zero in f16; expected a scale of at least 0.000488; use --loss-scale dynamic, or a larger number
// SMALL: warning: the loss scale 0.0004 rounds gradients below 7.45e-05 to zero in f16
// BF16: warning: the loss scale 1e-37 rounds gradients below 0.000459 to zero in bf16
// ENOUGH-NOT: warning
// ENOUGH: func.func @step
module attributes {amp.mode = #amp.mode<"16-mixed">} {
  mpc.variable @w : tensor<8xf32> role parameter
  func.func @step(%x: tensor<8xf32> {mpc.input = "x"}, %w: tensor<8xf32> {mpc.state = @w}, %lr: tensor<f32> {mpc.input = "learning_rate", mpc.role = #mpc.role<scalar>})
      -> (tensor<8xf32> {mpc.updates = @w}) {
    %s = mpc.gradient_seed {mpc.phase = #mpc.phase<backward>} : tensor<8xf32>
    %g = mpc.mul %x, %s {mpc.phase = #mpc.phase<backward>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %next = mpc.sgd %w, %g, %lr {mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    return %next : tensor<8xf32>
  }
}
