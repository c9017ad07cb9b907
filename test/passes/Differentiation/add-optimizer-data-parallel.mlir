// RUN: mpc-opt %s -split-input-file -mpc-add-optimizer="data-parallel clip-norm=1" | FileCheck %s --check-prefix=STEP
// RUN: mpc-opt %s -split-input-file -mpc-add-optimizer="data-parallel accumulate=4 clip-norm=1" | FileCheck %s --check-prefix=UPDATE
// RUN: mpc-opt %s -split-input-file -mpc-add-optimizer="data-parallel accumulate=4 accumulate-reduction=sum clip-norm=1" | FileCheck %s --check-prefix=ADDED
// RUN: mpc-opt %s -split-input-file -mpc-add-optimizer="clip-norm=1" | FileCheck %s --check-prefix=ALONE

// Clipping and the update read the gradients' means over the ranks.
// STEP-LABEL: func @step
// STEP: %[[G:.*]]:2 = mpc.gradient
// STEP: %[[B:.*]] = mpc.all_reduce mean %[[G]]#0 {mpc.phase = #mpc.phase<backward>} : (tensor<f32>) -> tensor<f32>
// STEP: %[[W:.*]] = mpc.all_reduce mean %[[G]]#1 {mpc.phase = #mpc.phase<backward>} : (tensor<8xf32>) -> tensor<8xf32>
// STEP: %[[C:.*]]:2, %{{.*}} = mpc.clip_grad_norm %[[B]], %[[W]]
// STEP: mpc.sgd %{{.*}}, %[[C]]#0
// STEP: mpc.sgd %{{.*}}, %[[C]]#1

// With accumulation, only sums over all micro-batches travel.
// UPDATE-LABEL: func @accumulate
// UPDATE-NOT: mpc.all_reduce
// UPDATE-LABEL: func @update
// UPDATE-SAME: %[[SUM:[a-z0-9]+]]: tensor<f32> {mpc.state = @b.grad}
// UPDATE: %[[ALL:.*]] = mpc.all_reduce mean %[[SUM]]
// UPDATE: mpc.div %[[ALL]]
// UPDATE: mpc.clip_grad_norm

// Sums of losses have sums of gradients, over micro-batches and ranks.
// ADDED-LABEL: func @update
// ADDED-SAME: %[[SUM:[a-z0-9]+]]: tensor<f32> {mpc.state = @b.grad}
// ADDED: %[[ALL:.*]] = mpc.all_reduce sum %[[SUM]]
// ADDED-NOT: mpc.div
// ADDED: mpc.clip_grad_norm %[[ALL]]

// ALONE-NOT: mpc.all_reduce
mpc.variable @b : tensor<f32> role parameter
mpc.variable @w : tensor<8xf32> role parameter
func.func @step(%x: tensor<8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %b: tensor<f32> {mpc.state = @b}, %w: tensor<8xf32> {mpc.state = @w})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %0 = mpc.mul %x, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %2 = mpc.add %1, %b : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
