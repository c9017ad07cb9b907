// Losses over class labels, and the accuracy.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCLOSSOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCLOSSOPS_TD

include "compiler/Dialect/MPC/MPCEnums.td"

class MPC_LabelLossOp<string mnemonic> : MPC_TensorOp<mnemonic, "Composite"> {
  dag labelArguments = (ins MPC_IntTensor:$labels,
                            Optional<MPC_FloatTensor>:$weights,
                            DefaultValuedAttr<MPC_LossReductionAttr, "::mpc::LossReduction::Mean">:$reduction,
                            OptionalAttr<I64Attr>:$ignore_index,
                            UnitAttr:$zero_if_empty);
}

def MPC_SoftmaxCrossEntropyLossOp : MPC_LabelLossOp<"softmax_cross_entropy_loss">,
    MPC_Policy<["SoftmaxCrossEntropyLoss"], "Deny", "Deny",
               "a loss: exponentials, a logarithm and a sum", fp32Operands = [2]> {
  let summary = "cross entropy of softmax over axis 1, against class labels";
  let description = [{
    ONNX SoftmaxCrossEntropyLoss: scores (N, C, ...), labels (N, ...), optional
    class weights (C). `reduction` is `mean`, `sum` or `none`. The mean divides
    by the sum of the weights of the labels that count. Labels equal to
    `ignore_index` do not count. A mean over no labels is NaN, as in ONNX, or 0
    with `zero_if_empty`.

    `label_smoothing` e is PyTorch's: the probability of each label is 1 - e,
    and all C classes share e. The loss of a label is (1 - e) * w[label] *
    -log_prob[label] + e / C * sum over c of w[c] * -log_prob[c].

    ```mlir
    %loss, %log_prob = mpc.softmax_cross_entropy_loss %scores, %labels {reduction = #mpc.reduction<mean>}
        : (tensor<32x10xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<32x10xf32>)
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$scores), labelArguments,
                       (ins DefaultValuedAttr<F64Attr, "0.0">:$label_smoothing));
  let results = (outs MPC_FloatTensor:$loss, MPC_FloatTensor:$log_prob);
}

def MPC_NLLLossOp : MPC_LabelLossOp<"nll_loss">,
    MPC_Policy<["NegativeLogLikelihoodLoss"], "Deny", "Deny",
               "a loss: a sum over the batch", fp32Operands = [2]> {
  let summary = "ONNX NegativeLogLikelihoodLoss: log-probabilities against class labels";
  let description = [{
    Like `mpc.softmax_cross_entropy_loss`, on log-probabilities.

    ```mlir
    %loss = mpc.nll_loss %log_prob, %labels {reduction = #mpc.reduction<mean>}
        : (tensor<32x10xf32>, tensor<32xi64>) -> tensor<f32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$log_prob), labelArguments);
  let results = (outs MPC_FloatTensor:$loss);
}

def MPC_AccuracyOp : MPC_TensorOp<"accuracy", "Composite">,
    MPC_Policy<[], "Deny", "Deny", "reads the scores that the loss reads"> {
  let summary = "1 where the greatest score over axis 1 is the label's, else 0";
  let description = [{
    Scores (N, C, ...), labels (N, ...). The result has a 1 or a 0 per label;
    its mean over the labels that count is the accuracy. The first of several
    equal scores is the greatest. The result is 0 if a score of the label's row
    is NaN, or if the label is no class. The kernel holds the position of the
    greatest score in a float, so there are at most 2^24 classes.

    ```mlir
    %correct = mpc.accuracy %scores, %labels
        : (tensor<32x10xf32>, tensor<32xi64>) -> tensor<32xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$scores, MPC_IntTensor:$labels);
  let results = (outs MPC_FloatTensor:$correct);
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCLOSSOPS_TD
