// RUN: mpc-opt %s -mpc-add-optimizer="accumulate=4 clip-norm=1" | FileCheck %s --check-prefixes=CHECK,MEAN
// RUN: mpc-opt %s -mpc-add-optimizer="accumulate=4 accumulate-reduction=sum clip-norm=1" | FileCheck %s --check-prefixes=CHECK,SUM

// Variables accumulate the gradients of several batches. The update reads and
// clears them. Only the update counts steps.
// CHECK: mpc.variable @w.grad : tensor<8xf32> role accumulator
mpc.variable @w : tensor<8xf32> role parameter

// CHECK-LABEL: func @accumulate
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8xf32> {mpc.state = @w}
// CHECK-SAME: %[[SUM:[a-z0-9]+]]: tensor<8xf32> {mpc.state = @w.grad}
// CHECK-NOT: mpc.updates = @mpc.step
// CHECK-SAME: tensor<8xf32> {mpc.updates = @w.grad}
// CHECK-SAME: tensor<i64> {mpc.updates = @mpc.micro_step}
// CHECK: %[[G:.*]] = mpc.gradient %{{.*}} wrt %[[W]]
// CHECK: mpc.add %[[SUM]], %[[G]] {mpc.phase = #mpc.phase<backward>}

// CHECK-LABEL: func @update
// CHECK-SAME: %[[SUM:[a-z0-9]+]]: tensor<8xf32> {mpc.state = @w.grad}
// CHECK-SAME: -> (tensor<8xf32> {mpc.updates = @w.grad}, tensor<f32> {mpc.output = "grad_norm", mpc.role = #mpc.role<grad_norm>}, tensor<8xf32> {mpc.updates = @w}, tensor<i64> {mpc.updates = @mpc.step})
// MEAN: %[[N:.*]] = mpc.constant {{.*}}dense<4.000000e+00> : tensor<f32>
// MEAN: %[[MEAN:.*]] = mpc.div %[[SUM]], %[[N]]
// CHECK: %[[ZERO:.*]] = mpc.constant {{.*}}dense<0.000000e+00> : tensor<8xf32>
// MEAN: %[[C:.*]], %[[NORM:.*]] = mpc.clip_grad_norm %[[MEAN]]
// SUM: %[[C:.*]], %[[NORM:.*]] = mpc.clip_grad_norm %[[SUM]]
// CHECK: %[[P:.*]] = mpc.sgd %{{.*}}, %[[C]]
// CHECK: return %[[ZERO]], %[[NORM]], %[[P]]
func.func @step(%x: tensor<8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<8xf32> {mpc.state = @w})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %0 = mpc.mul %x, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
