// RUN: mpc-opt %s -mpc-add-loss="loss=cross_entropy ignore-index=-100 class-weights=1,2.5,0.5 label-smoothing=0.1" | FileCheck %s --check-prefix=CLASS
// RUN: mpc-opt %s -mpc-add-loss="loss=cross_entropy reduction=sum ignore-index=1" | FileCheck %s --check-prefix=SUM
// RUN: mpc-opt %s -mpc-add-loss="loss=nll" | FileCheck %s --check-prefix=NLL
// RUN: mpc-opt %s -mpc-add-loss="loss=huber" | FileCheck %s --check-prefix=HUBER
// RUN: mpc-opt %s -mpc-add-loss="loss=smooth_l1" | FileCheck %s --check-prefix=HUBER
// RUN: mpc-opt %s -mpc-add-loss="loss=bce" | FileCheck %s --check-prefix=BCE
// RUN: mpc-opt %s -mpc-add-loss="loss=kl_div" | FileCheck %s --check-prefix=KL
// RUN: mpc-opt %s -mpc-add-loss="loss=bce_with_logits pos-weight=2,1,3" | FileCheck %s --check-prefix=POS
// RUN: mpc-opt %s -mpc-add-loss="loss=mse reduction=sum" | FileCheck %s --check-prefix=MSE
// RUN: not mpc-opt %s -mpc-add-loss="loss=cross_entropy class-weights=1,2" 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not mpc-opt %s -mpc-add-loss="loss=mse reduction=none" 2>&1 | FileCheck %s --check-prefix=NONE

// TWO: error: expected 3 --class-weights, one of each class, for scores of shape [4,3], found 2
// NONE: error: unknown reduction 'none'; expected one of mean, sum
mpc.variable @w : tensor<8x3xf32> role parameter

// A mean over no label is 0. Evaluation sums samples and their weights.
// CLASS-LABEL: func @step
// CLASS: %[[W:.*]] = mpc.constant {mpc.phase = #mpc.phase<loss>} dense<[1.000000e+00, 2.500000e+00, 5.000000e-01]>
// CLASS: mpc.softmax_cross_entropy_loss %{{.*}}, %{{.*}}, %[[W]]
// CLASS-SAME: ignore_index = -100 : i64
// CLASS-SAME: label_smoothing = 1.000000e-01 : f64
// CLASS-SAME: zero_if_empty
// CLASS-LABEL: func @eval
// CLASS-SAME: tensor<4xf32> {mpc.output = "sample_weight", mpc.role = #mpc.role<sample_weight>}
// CLASS: %[[EACH:loss]], %{{.*}} = mpc.softmax_cross_entropy_loss {{.*}}reduction = #mpc.reduction<none>
// CLASS: %[[ONES:.*]] = mpc.expand %{{.*}} : (tensor<f32>) -> tensor<4x3xf32>
// CLASS: %[[COUNTS:.*]] = mpc.nll_loss %[[ONES]], {{.*}}reduction = #mpc.reduction<none>
// CLASS: return %{{.*}}, %[[EACH]], %[[COUNTS]],

// SUM-LABEL: func @step
// SUM: mpc.softmax_cross_entropy_loss {{.*}}ignore_index = 1 : i64{{.*}}reduction = #mpc.reduction<sum>
// SUM-NOT: zero_if_empty
// SUM-LABEL: func @eval
// SUM-NOT: sample_weight
// SUM: mpc.reduce_sum

// NLL-LABEL: func @step
// NLL: mpc.nll_loss
// NLL-LABEL: func @eval
// NLL: mpc.accuracy

// HUBER-LABEL: func @step
// HUBER: %[[E:.*]] = mpc.sub
// HUBER: %[[SIZE:.*]] = mpc.abs %[[E]]
// HUBER: %[[BOUNDED:.*]] = mpc.clip %[[SIZE]] {max = 1.000000e+00 : f64
// HUBER: %[[HALF:.*]] = mpc.mul %[[BOUNDED]],
// HUBER: %[[REST:.*]] = mpc.sub %[[SIZE]], %[[HALF]]
// HUBER: mpc.mul %[[BOUNDED]], %[[REST]]

// BCE-LABEL: func @step
// BCE: mpc.bce %{{.*}}, %{{.*}}

// A divergence is a sum over classes, averaged over samples.
// KL-LABEL: func @step
// KL: mpc.log
// KL: %[[TOTAL:.*]] = mpc.reduce_sum %{{.*}} {axes = array<i64: 1>
// KL: mpc.reduce_mean %[[TOTAL]] {axes = array<i64: 0>

// POS-LABEL: func @step
// POS: mpc.constant {mpc.phase = #mpc.phase<loss>} dense<{{\[\[}}2.000000e+00, 1.000000e+00, 3.000000e+00]]>
// POS-COUNT-2: mpc.bce_with_logits

// MSE-LABEL: func @step
// MSE: mpc.reduce_sum %{{.*}} {axes = array<i64: 0, 1>
func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %w: tensor<8x3xf32> {mpc.state = @w})
    -> (tensor<4x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
