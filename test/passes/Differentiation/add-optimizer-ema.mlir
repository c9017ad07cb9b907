// RUN: mpc-opt %s -split-input-file -mpc-add-optimizer="ema=0.75" | FileCheck %s
// RUN: mpc-opt %s -split-input-file -mpc-add-optimizer="ema=0.75 accumulate=2" | FileCheck %s --check-prefix=UPDATE
// RUN: mpc-opt %s -split-input-file -mpc-add-optimizer="ema=0.75 freeze=b" -mpc-expand-gradients -amp-insert-loss-scaling="loss-scale=128" 2>&1 | FileCheck %s --check-prefix=GUARD
// RUN: not mpc-opt %s -split-input-file -mpc-add-optimizer="ema=1" 2>&1 | FileCheck %s --check-prefix=ERROR

// An average starts as its parameter. Untrained parameters have none.
// ERROR: error: expected --ema of at least 0 and below 1, found 1
// CHECK: mpc.variable @w.ema : tensor<2xf32> role average init dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK: mpc.variable @b.ema : tensor<2xf32> role average fill 3.000000e+00
// GUARD-NOT: @b.ema
mpc.variable @w : tensor<2xf32> role parameter init dense<[1.0, 2.0]> : tensor<2xf32>
mpc.variable @b : tensor<2xf32> role parameter fill 3.0

// CHECK-LABEL: func @step
// CHECK-SAME: %[[OLD:[a-z0-9]+]]: tensor<2xf32> {mpc.state = @w.ema}
// CHECK-SAME: tensor<2xf32> {mpc.updates = @w}, tensor<2xf32> {mpc.updates = @w.ema}
// CHECK: %[[NEW:.*]] = mpc.sgd
// CHECK: %[[WAY:.*]] = mpc.constant {{.*}}dense<2.500000e-01> : tensor<f32>
// CHECK: %[[CHANGE:.*]] = mpc.sub %[[NEW]], %[[OLD]] {mpc.phase = #mpc.phase<optimizer>}
// CHECK: %[[PART:.*]] = mpc.mul %[[CHANGE]], %[[WAY]] {mpc.phase = #mpc.phase<optimizer>}
// CHECK: mpc.add %[[OLD]], %[[PART]] {mpc.phase = #mpc.phase<optimizer>}

// The average covers steps, not the batches of a step.
// UPDATE-LABEL: func @accumulate
// UPDATE-NOT: @w.ema
// UPDATE-LABEL: func @update
// UPDATE-SAME: {mpc.updates = @w.ema}

// A skipped step keeps the average.
// GUARD-LABEL: func @step
// GUARD-SAME: %[[OLD:[a-z0-9]+]]: tensor<2xf32> {mpc.state = @w.ema}
// GUARD: %[[NEXT:.*]] = mpc.add %[[OLD]], %{{.*}} {mpc.phase = #mpc.phase<optimizer>}
// GUARD: mpc.select %{{.*}}, %[[NEXT]], %[[OLD]]
func.func @step(%x: tensor<2xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<2xf32> {mpc.state = @w},
                %b: tensor<2xf32> {mpc.state = @b})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %0 = mpc.mul %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = mpc.add %0, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = mpc.reduce_sum %1 {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}
