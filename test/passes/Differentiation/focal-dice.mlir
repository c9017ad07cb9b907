// The focal and dice losses are built of ops whose gradients are known, in fp32.
//
// RUN: mpc-opt %s -mpc-add-loss="loss=focal ignore-index=-100" | FileCheck %s --check-prefix=FOCAL
// RUN: mpc-opt %s -mpc-add-loss="loss=focal class-weights=1,2,3 focal-gamma=0.5 reduction=sum" | FileCheck %s --check-prefix=POWER
// RUN: mpc-opt %s -mpc-add-loss="loss=focal focal-gamma=0" | FileCheck %s --check-prefix=ENTROPY
// RUN: mpc-opt %s -mpc-add-loss="loss=sigmoid_focal focal-alpha=-1 focal-gamma=1" | FileCheck %s --check-prefix=SIGMOID
// RUN: mpc-opt %s -mpc-add-loss="loss=dice ignore-index=-100 class-weights=1,2,1" | FileCheck %s --check-prefix=DICE
// RUN: mpc-opt %s -mpc-add-loss="loss=sigmoid_dice dice-smooth=1" | FileCheck %s --check-prefix=MASK
// RUN: not mpc-opt %s -mpc-add-loss="loss=focal focal-gamma=-1" 2>&1 | FileCheck %s --check-prefix=GAMMA
// RUN: not mpc-opt %s -mpc-add-loss="loss=sigmoid_focal focal-alpha=2" 2>&1 | FileCheck %s --check-prefix=ALPHA
// RUN: not mpc-opt %s -mpc-add-loss="loss=dice dice-smooth=0" 2>&1 | FileCheck %s --check-prefix=SMOOTH

// GAMMA: error: expected --focal-gamma of at least 0, found -1
// ALPHA: error: expected --focal-alpha in [0,1], or -1 for no weights, found 2
// SMOOTH: error: expected --dice-smooth above 0, found 0

// The mean is over the labels that count.
// FOCAL-LABEL: func @step
// FOCAL: mpc.nll_loss {{.*}}ignore_index = -100
// FOCAL: %[[L:loss.*]], %{{.*}} = mpc.softmax_cross_entropy_loss {{.*}}ignore_index = -100 : i64{{.*}}reduction = #mpc.reduction<none>
// FOCAL: mpc.neg %[[L]]
// FOCAL: %[[P:.*]] = mpc.exp
// FOCAL: %[[REST:.*]] = mpc.sub %{{.*}}, %[[P]]
// FOCAL: %[[SQUARE:.*]] = mpc.mul %[[REST]], %[[REST]]
// FOCAL: mpc.mul %[[SQUARE]], %[[L]]
// FOCAL: mpc.select
// FOCAL-LABEL: func @eval
// FOCAL-SAME: {mpc.output = "sample_loss", mpc.role = #mpc.role<sample_loss>}
// FOCAL-SAME: {mpc.output = "sample_weight", mpc.role = #mpc.role<sample_weight>}
// FOCAL-SAME: {mpc.output = "correct", mpc.role = #mpc.role<correct>}

// The bound keeps the gradient finite where 1 - p is 0.
// POWER-LABEL: func @step
// POWER: %[[W:.*]] = mpc.nll_loss
// POWER: %[[BASE:.*]] = mpc.clip %{{.*}} {{.*}}min = 1.17{{.*}}E-38
// POWER: mpc.pow %[[BASE]]
// POWER: mpc.mul %{{.*}}, %[[W]]
// POWER-NOT: mpc.select
// POWER-LABEL: func @eval

// ENTROPY-LABEL: func @step
// ENTROPY-NOT: mpc.pow
// ENTROPY: %[[L:loss.*]], %{{.*}} = mpc.softmax_cross_entropy_loss
// ENTROPY: mpc.reduce_mean %[[L]]

// SIGMOID-LABEL: func @step
// SIGMOID-SAME: tensor<4x3xf32> {mpc.input = "target", mpc.role = #mpc.role<label>}
// SIGMOID: %[[L:.*]] = mpc.bce_with_logits
// SIGMOID: mpc.sigmoid
// SIGMOID: mpc.neg
// SIGMOID: mpc.sigmoid
// SIGMOID: %[[REST:.*]] = mpc.add
// SIGMOID: mpc.mul %[[REST]], %[[L]]
// SIGMOID-NEXT: mpc.reduce_mean

// The nll_loss tells the range of the labels, and has 0 for ignored ones.
// DICE-LABEL: func @step
// DICE: %[[P:.*]] = mpc.softmax
// DICE: %[[T:.*]] = mpc.one_hot {{.*}}depth = 3
// DICE: %[[COUNTS:.*]] = mpc.nll_loss {{.*}}ignore_index = -100
// DICE: mpc.div
// DICE: %[[WEIGHTS:.*]] = mpc.constant {{.*}}dense<[2.500000e-01, 5.000000e-01, 2.500000e-01]>
// DICE: mpc.mul %{{.*}}, %[[WEIGHTS]]
// DICE-LABEL: func @eval
// DICE-SAME: tensor<4xf32> {mpc.output = "sample_loss", mpc.role = #mpc.role<sample_loss>}
// DICE-SAME: {mpc.output = "correct", mpc.role = #mpc.role<correct>}

// An output of rank 2 is one mask for each sample.
// MASK-LABEL: func @step
// MASK: %[[P:.*]] = mpc.sigmoid
// MASK: mpc.reduce_sum {{.*}}(tensor<4x3xf32>) -> tensor<4xf32>
// MASK: mpc.constant {{.*}}dense<1.000000e+00>
// MASK: mpc.div
mpc.variable @w : tensor<8x3xf32> role parameter
func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %w: tensor<8x3xf32> {mpc.state = @w})
    -> (tensor<4x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
