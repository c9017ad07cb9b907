// RUN: mpc-opt %s -mpc-add-optimizer="data-parallel sync-batch-norm" | FileCheck %s --check-prefixes=CHECK,RANKS
// RUN: mpc-opt %s -mpc-add-optimizer="data-parallel sync-batch-norm accumulate=4" | FileCheck %s --check-prefix=RANKS
// RUN: mpc-opt %s -mpc-add-optimizer="data-parallel sync-batch-norm" -mpc-expand-gradients | FileCheck %s --check-prefix=GRAD
// RUN: mpc-opt %s -mpc-add-optimizer="data-parallel" -mpc-expand-gradients | FileCheck %s --check-prefix=OWN
// RUN: mpc-opt %s -mpc-add-optimizer="sync-batch-norm" -mpc-expand-gradients | FileCheck %s --check-prefix=OWN

// Training normalizes by the batches of all ranks, and so does the gradient. The
// evaluation has no batch.
// RANKS: mpc.batch_norm %{{.*}} {epsilon = 1.000000e-05 : f64, momentum = 9.000000e-01 : f64, mpc.over_ranks}
// CHECK-LABEL: func.func @eval
// CHECK: mpc.batch_norm_inference %{{.*}} {epsilon = 1.000000e-05 : f64} :
// GRAD: mpc.batch_norm_grad %{{.*}} {mpc.over_ranks, mpc.phase = #mpc.phase<backward>}
// OWN-NOT: mpc.over_ranks
mpc.variable @w : tensor<8x3xf32> role parameter
mpc.variable @bn.mean : tensor<3xf32> role statistic
mpc.variable @bn.var : tensor<3xf32> role statistic
func.func @step(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<8x3xf32> {mpc.state = @w},
                %mean: tensor<3xf32> {mpc.state = @bn.mean}, %var: tensor<3xf32> {mpc.state = @bn.var})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>},
        tensor<3xf32> {mpc.updates = @bn.mean}, tensor<3xf32> {mpc.updates = @bn.var}) {
  %s = mpc.constant dense<1.0> : tensor<3xf32>
  %h = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  %y, %m, %i, %rm, %rv = mpc.batch_norm %h, %s, %s, %mean, %var {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64}
      : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %t = mpc.tanh %y : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %loss = mpc.reduce_sum %t {axes = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
  return %loss, %rm, %rv : tensor<f32>, tensor<3xf32>, tensor<3xf32>
}
func.func @eval(%x: tensor<4x3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %mean: tensor<3xf32> {mpc.state = @bn.mean}, %var: tensor<3xf32> {mpc.state = @bn.var})
    -> (tensor<4x3xf32> {mpc.output = "y", mpc.role = #mpc.role<prediction>}) {
  %y = mpc.batch_norm_inference %x, %var, %mean, %mean, %var {epsilon = 1.0e-5 : f64}
      : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
