// RUN: mpc-opt %s -split-input-file -mpc-add-loss=loss=softmax_cross_entropy | FileCheck %s --check-prefixes=CHECK,CLASS
// RUN: mpc-opt %s -split-input-file -mpc-add-loss="loss=mse target-array=goal" | FileCheck %s --check-prefixes=CHECK,MSE
// RUN: mpc-opt %s -split-input-file -mpc-add-loss=loss=l1 | FileCheck %s --check-prefix=L1
// RUN: mpc-opt %s -split-input-file -mpc-add-loss=loss=bce_with_logits | FileCheck %s --check-prefix=BCE

// The loss replaces the outputs. Labels are an input of the output's shape,
// with or without the classes.
mpc.variable @w : tensor<8x3xf32> role parameter

// CHECK-LABEL: func @step
// CLASS-SAME: %[[T:[a-z0-9]+]]: tensor<4xi64> {mpc.input = "target", mpc.role = #mpc.role<label>}
// CLASS-SAME: -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>})
// MSE-SAME: %[[T:[a-z0-9]+]]: tensor<4x3xf32> {mpc.input = "goal", mpc.role = #mpc.role<label>}
// MSE-SAME: -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>})
// CHECK: %[[Y:.*]] = mpc.matmul
// CLASS: %[[LOSS:loss]], %{{.*}} = mpc.softmax_cross_entropy_loss %[[Y]], %[[T]] {mpc.phase = #mpc.phase<loss>}
// MSE: %[[E:.*]] = mpc.sub %[[Y]], %[[T]]
// MSE: %[[S:.*]] = mpc.mul %[[E]], %[[E]]
// MSE: %[[LOSS:.*]] = mpc.reduce_mean %[[S]] {axes = array<i64: 0, 1>
// CHECK: return %[[LOSS]] : tensor<f32>

// Evaluation also returns every sample's loss and prediction, and for classes a
// flag for a correct prediction.
// CHECK-LABEL: func @eval
// CHECK-SAME: tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}
// CHECK-SAME: tensor<4xf32> {mpc.output = "sample_loss", mpc.role = #mpc.role<sample_loss>}
// CHECK-SAME: tensor<4x3xf32> {mpc.output = "prediction", mpc.role = #mpc.role<prediction>}
// CLASS-SAME: tensor<4xf32> {mpc.output = "correct", mpc.role = #mpc.role<correct>}
// CHECK: %[[Y:.*]] = mpc.matmul
// CLASS: %[[SAMPLES:loss]], %{{.*}} = mpc.softmax_cross_entropy_loss %[[Y]], %{{.*}} {{{.*}}reduction = #mpc.reduction<none>}
// MSE: %[[SAMPLES:.*]] = mpc.reduce_mean %{{.*}} {axes = array<i64: 1>
// CHECK: %[[MEAN:.*]] = mpc.reduce_mean %[[SAMPLES]] {axes = array<i64: 0>
// CLASS: %[[CORRECT:.*]] = mpc.accuracy %[[Y]], %{{.*}} {mpc.phase = #mpc.phase<loss>}
// CLASS: return %[[MEAN]], %[[SAMPLES]], %[[Y]], %[[CORRECT]]
// MSE: return %[[MEAN]], %[[SAMPLES]], %[[Y]] :

// L1-LABEL: func @step
// L1: mpc.sub
// L1: mpc.abs
// L1: mpc.reduce_mean
// BCE-LABEL: func @step
// BCE: %[[E:.*]] = mpc.bce_with_logits
// BCE: mpc.reduce_mean %[[E]]
func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %w: tensor<8x3xf32> {mpc.state = @w})
    -> (tensor<4x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
