// Without data or a label input, the axis of classes is unknown.
//
// RUN: mpc-opt %s -split-input-file -verify-diagnostics -mpc-add-loss=loss=softmax_cross_entropy@y
// RUN: not mpc-opt %s -split-input-file -mpc-add-loss=loss=softmax_cross_entropy@y:3 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not mpc-opt %s -split-input-file -mpc-add-loss=loss=mse@y:1 2>&1 | FileCheck %s --check-prefix=MSE
// RUN: not mpc-opt %s -split-input-file -mpc-add-loss=loss=output:y 2>&1 | FileCheck %s --check-prefix=OUTPUT
// RUN: not mpc-opt %s -split-input-file -mpc-add-loss=loss=bce_with_logits 2>&1 | FileCheck %s --check-prefix=BCE

// AXIS: error: classes cannot be on axis 3 of scores of shape [4,7,5], whose axis 0 is the batch
// MSE: error: 'y:1': only losses of class labels have classes on an axis
// OUTPUT: error: expected a loss of one element for --loss output:NAME, found [4,7,5]; reduce it in the model with ReduceMean, or choose a loss that reads it, such as --loss mse@NAME
// BCE: error: expected logits for bce_with_logits, which applies sigmoid itself, found the output of Sigmoid; train on the logits before it: --loss bce_with_logits@NODE, here @scores
func.func @forward(%x: tensor<4x7x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4x7x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %s = mpc.relu %x : (tensor<4x7x5xf32>) -> tensor<4x7x5xf32> loc("scores")
  // expected-error@+1 {{scores of shape [4,7,5] may have their classes on axis 1 or on axis 2, and the shape of the labels is unknown; say which with --loss softmax_cross_entropy@y:1 or --loss softmax_cross_entropy@y:2}}
  %y = mpc.sigmoid %s : (tensor<4x7x5xf32>) -> tensor<4x7x5xf32>
  return %y : tensor<4x7x5xf32>
}
