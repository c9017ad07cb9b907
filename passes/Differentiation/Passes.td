// The passes of the Differentiation stage, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_PASSES_TD
#define MPC_PASSES_DIFFERENTIATION_PASSES_TD

include "mlir/Pass/PassBase.td"

def AddLossPass : Pass<"mpc-add-loss", "::mlir::ModuleOp"> {
  let summary = "turns a forward model into @step and @eval with a loss";
  let description = [{
    `@forward` becomes `@step`: its outputs give way to the loss, the labels
    become an input (an `i64` class per position for `softmax_cross_entropy`,
    otherwise the output's shape and type); updates of running statistics stay.
    `@eval` is the same in inference mode: dropout is gone, batch_norm uses the
    running statistics; it returns the loss, the loss of every sample where the
    model's leading axis is the batch, the prediction and, for losses over class
    labels, whether each label was predicted.

    Classes are on axis 1 of scores of rank 2. Of a higher rank they are on axis
    1 or the last, whichever leaves the shape of the labels (those of an input
    of the model, or `label-shape`); where both do, or it is not known,
    `loss=softmax_cross_entropy@OUTPUT:AXIS` must say it. Where the leading axis
    of the scores is a multiple of the batch, each sample has as many labels.
    Samples are followed from the inputs: scores that have them on another axis
    than the first, or behind one another within it, such as time-major ones, are
    refused.

    Where labels have weights, by their class or because one class is ignored,
    the mean divides by the sum of the weights of the labels: a batch without any
    has a loss of 0 and no gradient. `@eval` then also returns the weight of each
    sample, and as its loss the weighted sum: the mean of all samples is the sum
    of one over the sum of the other.

    Several losses, each times its factor, are added up; accuracy and prediction
    are those of the first. Samples' losses that are divided by weights are
    outputs of their own, `sample_loss_1` with `sample_weight_1` and so on, beside
    the sum of the others.

    The module must have a `@forward`. Example: `add-loss.mlir`.

    ```mlir
    func.func @forward(%x, %w) -> (%y)
    // becomes, with loss=mse (softmax_cross_entropy also returns %correct)
    func.func @step(%x, %w, %target) -> (%loss)
    func.func @eval(%x, %w, %target) -> (%loss, %sample_loss, %y)
    ```

    Afterwards `@step` has exactly one result of role `loss`, a scalar.
  }];
  let options = [
    ListOption<"loss", "loss", "std::string",
           "losses to add up, each with an optional FACTOR*: softmax_cross_entropy, nll, mse, l1, huber, smooth_l1, bce, "
           "bce_with_logits, kl_div (each with an optional @OUTPUT) or "
           "output:NAME">,
    Option<"reduction", "reduction", "std::string", "\"mean\"",
           "mean or sum over all elements or labels; the mean of kl_div is "
           "that of the samples' sums">,
    Option<"ignoreIndex", "ignore-index", "int64_t", "kNoIgnoreIndex",
           "the label that counts nowhere; the least of all: none">,
    Option<"labelSmoothing", "label-smoothing", "double", "0.0",
           "the part of each label that all classes share, in [0, 1)">,
    ListOption<"classWeights", "class-weights", "double",
               "how much labels count, one weight of each class">,
    ListOption<"posWeight", "pos-weight", "double",
               "factor of positive targets of bce_with_logits: one, or one of "
               "each class">,
    ListOption<"labelShapes", "label-shape", "std::string",
           "shape of one sample's labels, such as 7x5 or scalar, of all label "
           "inputs, or NAME=SHAPE of one; none: not known">,
    ListOption<"targetArrays", "target-array", "std::string",
           "the name of the label input, target by default; OUTPUT=NAME: that "
           "of the loss of an output">,
  ];
  let dependentDialects = ["::mpc::MPCDialect", "::mlir::func::FuncDialect"];
}

def AddOptimizerPass : Pass<"mpc-add-optimizer", "::mlir::ModuleOp"> {
  let summary = "adds gradients of the loss and the update of the parameters";
  let description = [{
    In `@step`: one `mpc.gradient` of the loss with respect to every trainable
    parameter, clipping, one optimizer op per parameter with its state
    variables, and the counters. With `accumulate` above 1 `@step` becomes
    `@accumulate`, which adds the gradients to accumulators, and `@update`,
    which reads and clears them.

    Trainable are the float variables of role `parameter` that a gradient
    reaches. `train` takes those that a pattern matches instead, of any role but
    `statistic`; `freeze` then takes away. Roles are rewritten to match. A
    batch_norm whose scale and bias patterns froze becomes a
    batch_norm_inference, and its running statistics are no longer updated.
    `no-decay` and `lr-scale` give some of them no weight decay, or a multiple of
    the learning rate (of several factors, the last that matches holds).
    With `ema` above 0 every trained parameter @p has an @p.ema, which starts as
    @p and moves towards its new value by 1 - ema of the way.

    Expects `@step` of `mpc-add-loss`, or with `given-gradients` one whose
    results of role `gradient`, each called as its variable, take the place of
    `mpc.gradient`; a module without such results is left as it is. Example:
    `add-optimizer.mlir`.

    ```mlir
    func.func @step(%x, %w) -> (%loss)
    // becomes, with optimizer=sgd
    func.func @step(%x, %w, %step, %micro_step, %learning_rate)
        -> (%loss, %w1, %step1, %micro_step1) {
      ...
      %g = mpc.gradient %loss wrt %w : ...
      %step1 = mpc.increment %step : tensor<i64>
      %w1 = mpc.sgd %w, %g, %learning_rate : ...
    ```

    Afterwards every trainable parameter has a result that updates it.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"sgd\"",
           "sgd, momentum, nesterov, adam, adamw, adagrad or lamb">,
    Option<"momentum", "momentum", "double", "0.9", "for momentum, nesterov">,
    Option<"beta1", "beta1", "double", "0.9", "for adam, adamw, lamb">,
    Option<"beta2", "beta2", "double", "0.999", "for adam, adamw, lamb">,
    Option<"epsilon", "epsilon", "double", "-1.0",
           "negative: the optimizer's default in PyTorch">,
    Option<"weightDecay", "weight-decay", "double", "-1.0",
           "negative: the optimizer's default in PyTorch">,
    Option<"accumulate", "accumulate", "int64_t", "1",
           "micro-batches per update">,
    Option<"accumulateReduction", "accumulate-reduction", "std::string",
           "\"mean\"", "mean or sum of the micro-batches' gradients">,
    Option<"givenGradients", "given-gradients", "bool", "false",
           "use the gradients that @step gives, where it does">,
    Option<"clipNorm", "clip-norm", "double", "0.0",
           "bound of the gradients' common L2 norm; 0: none">,
    Option<"ema", "ema", "double", "0.0",
           "decay of the average of each parameter; 0: no averages">,
    ListOption<"train", "train", "std::string",
               "patterns of the parameters to train">,
    ListOption<"freeze", "freeze", "std::string",
               "patterns of the parameters to keep as they are">,
    ListOption<"noDecay", "no-decay", "std::string",
               "bias, norm or patterns of the parameters without weight decay">,
    ListOption<"lrScale", "lr-scale", "std::string",
               "PATTERN=FACTOR: parameters with another learning rate">,
  ];
  let dependentDialects = ["::mpc::MPCDialect", "::mlir::func::FuncDialect"];
}

def ExpandGradientsPass : Pass<"mpc-expand-gradients", "::mlir::ModuleOp"> {
  let summary = "builds the backward pass that mpc.gradient stands for";
  let description = [{
    Replaces every `mpc.gradient` by the ops that compute it, from an
    `mpc.gradient_seed` at Y backwards, each located at `node#dx` (or what the
    operand is called) with `mpc.phase = #mpc.phase<backward>`. Gradients are f32, f64
    where the value is f64; where a value has several uses they are added in
    that type. Ops without a gradient between Y and
    an X are an error that lists all of them, and so is a loss that reads a
    result without a derivative (batch_norm's statistics). Example:
    `expand-gradients.mlir`.

    ```mlir
    %dw = mpc.gradient %loss wrt %w : ...
    // becomes, for %y = mpc.gemm %x, %w
    %dw = mpc.gemm %x, %dy {transA = true} : ...
    ```

    Afterwards no `mpc.gradient` is left.
  }];
  let dependentDialects = ["::mpc::MPCDialect"];
}

def MoveOutOfScansPass : Pass<"mpc-move-out-of-scans", "::mlir::func::FuncOp"> {
  let summary = "products of all iterations at once";
  let description = [{
    Takes out of every `mpc.scan` what can be done for all iterations together:

    - before it, what depends on invariant operands alone, and products of parts
      of scanned operands with invariant ones;
    - behind it, products with invariant operands that are only stacked, and sums
      over all iterations of products and of rows: the gradients of weights. Their
      factors are stacked instead.

    Before (test/passes/Differentiation/move-out-of-scans.mlir):

    ```mlir
    %all = mpc.scan 35 scanned(%x : tensor<35x20x64xf32>) invariant(%w : tensor<64x96xf32>)
        -> (tensor<35x20x96xf32>) {
    ^bb0(%x_t: tensor<20x64xf32>, %u: tensor<64x96xf32>):
      %0 = mpc.matmul %x_t, %u : (tensor<20x64xf32>, tensor<64x96xf32>) -> tensor<20x96xf32>
      %1 = mpc.tanh %0 : (tensor<20x96xf32>) -> tensor<20x96xf32>
      mpc.yield %1 : tensor<20x96xf32>
    } ...
    ```

    After:

    ```mlir
    %rows = mpc.reshape %x : (tensor<35x20x64xf32>) -> tensor<700x64xf32>
    %0 = mpc.matmul %rows, %w : (tensor<700x64xf32>, tensor<64x96xf32>) -> tensor<700x96xf32>
    %products = mpc.reshape %0 : (tensor<700x96xf32>) -> tensor<35x20x96xf32>
    %all = mpc.scan 35 scanned(%products : tensor<35x20x96xf32>) -> (tensor<35x20x96xf32>) {
    ^bb0(%p_t: tensor<20x96xf32>):
      %1 = mpc.tanh %p_t : (tensor<20x96xf32>) -> tensor<20x96xf32>
      mpc.yield %1 : tensor<20x96xf32>
    } ...
    ```
  }];
  let dependentDialects = ["::mpc::MPCDialect"];
}

def KeepEvaluationPass : Pass<"mpc-keep-evaluation", "::mlir::ModuleOp"> {
  let summary = "takes away what only training needs";
  let description = [{
    Erases `@step`, `@accumulate` and `@update`, and the variables that no other
    function reads: what is left is `@eval`, and `@derive` where there is one. A
    module without `@eval` stays as it is. Example: `keep-evaluation.mlir`.

    ```mlir
    mpc.variable @w : tensor<8x3xf32> role parameter
    mpc.variable @w.momentum : tensor<8x3xf32> role optimizer_state
    func.func @step(%x, %w, %target, %momentum) -> (%loss, %w1, %momentum1)
    func.func @eval(%x, %w, %target) -> (%loss, %sample_loss, %y)
    // becomes
    mpc.variable @w : tensor<8x3xf32> role parameter
    func.func @eval(%x, %w, %target) -> (%loss, %sample_loss, %y)
    ```
  }];
}

#endif // MPC_PASSES_DIFFERENTIATION_PASSES_TD
