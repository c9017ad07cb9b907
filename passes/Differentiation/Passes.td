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
    Samples are followed from the inputs: an output that has them on another axis
    than the first, or behind one another within it, such as a time-major one, is
    transposed, and labels have a row for each sample.

    Where labels have weights, by their class or because one class is ignored,
    the mean divides by the sum of the weights of the labels: a batch without any
    has a loss of 0 and no gradient. `@eval` then also returns the weight of each
    sample, and as its loss the weighted sum: the mean of all samples is the sum
    of one over the sum of the other.

    Several losses, each times its factor, are added up; accuracy and prediction
    are those of the first. Samples' losses that are divided by weights are
    outputs of their own, `sample_loss_1` with `sample_weight_1` and so on, beside
    the sum of the others.

    The module must have a `@forward`.

    Before:

    ```mlir
    mpc.variable @w : tensor<8x3xf32> role parameter
    func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                       %w: tensor<8x3xf32> {mpc.state = @w})
        -> (tensor<4x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
      %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
      return %y : tensor<4x3xf32>
    }
    ```

    After, with `loss=mse`:

    ```mlir
    func.func @step(%x: ..., %w: ...,
        %target: tensor<4x3xf32> {mpc.input = "target", mpc.role = #mpc.role<label>})
        -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
      %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
      %d = mpc.sub %y, %target {mpc.phase = #mpc.phase<loss>}
          : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
      %d2 = mpc.mul %d, %d {mpc.phase = #mpc.phase<loss>}
          : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
      %loss = mpc.reduce_mean %d2 {axes = array<i64: 0, 1>, mpc.phase = #mpc.phase<loss>}
          : (tensor<4x3xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
    func.func @eval(%x: ..., %w: ...,
        %target: tensor<4x3xf32> {mpc.input = "target", mpc.role = #mpc.role<label>})
        -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>},
        tensor<4xf32> {mpc.output = "sample_loss", mpc.role = #mpc.role<sample_loss>},
        tensor<4x3xf32> {mpc.output = "prediction", mpc.role = #mpc.role<prediction>}) {
      %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
      ...
      %samples = mpc.reduce_mean %d2 {axes = array<i64: 1>, mpc.phase = #mpc.phase<loss>}
          : (tensor<4x3xf32>) -> tensor<4xf32>
      %loss = mpc.reduce_mean %samples {axes = array<i64: 0>, mpc.phase = #mpc.phase<loss>}
          : (tensor<4xf32>) -> tensor<f32>
      return %loss, %samples, %y : tensor<f32>, tensor<4xf32>, tensor<4x3xf32>
    }
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
    Option<"float64", "float64", "bool", "false",
           "the loss and targets of float16 and bfloat16 outputs are f64, not "
           "f32">,
    Option<"trainAccuracy", "train-accuracy", "bool", "false",
           "the step says, too, which labels the scores got right">,
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
    `mpc.gradient`; a module without such results is left as it is.

    Before:

    ```mlir
    mpc.variable @w : tensor<8x3xf32> role parameter
    func.func @step(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                    %w: tensor<8x3xf32> {mpc.state = @w})
        -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
      %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
      %loss = mpc.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    }
    ```

    After, with `optimizer=sgd`:

    ```mlir
    mpc.variable @w : tensor<8x3xf32> role parameter
    mpc.variable @mpc.step : tensor<i64> role counter
    mpc.variable @mpc.micro_step : tensor<i64> role counter
    func.func @step(%x: ..., %w: ..., %step: tensor<i64> {mpc.state = @mpc.step},
        %lr: tensor<f32> {mpc.input = "learning_rate", mpc.role = #mpc.role<scalar>},
        %micro_step: tensor<i64> {mpc.state = @mpc.micro_step})
        -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>},
        tensor<8x3xf32> {mpc.updates = @w}, tensor<i64> {mpc.updates = @mpc.step},
        tensor<i64> {mpc.updates = @mpc.micro_step}) {
      %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
      %loss = mpc.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
      %g = mpc.gradient %loss wrt %w : tensor<f32>, (tensor<8x3xf32>) -> (tensor<8x3xf32>)
      %step1 = mpc.increment %step {mpc.phase = #mpc.phase<optimizer>} : (tensor<i64>) -> tensor<i64>
      %w1 = mpc.sgd %w, %g, %lr {mpc.phase = #mpc.phase<optimizer>}
          : (tensor<8x3xf32>, tensor<8x3xf32>, tensor<f32>) -> tensor<8x3xf32>
      %micro_step1 = mpc.increment %micro_step {mpc.phase = #mpc.phase<optimizer>}
          : (tensor<i64>) -> tensor<i64>
      return %loss, %w1, %step1, %micro_step1 : ...
    }
    ```

    Afterwards every trainable parameter has a result that updates it.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"sgd\"",
           "sgd, momentum, nesterov, adam, adamw, adagrad, rmsprop or lamb">,
    Option<"momentum", "momentum", "double", "0.9", "for momentum, nesterov, rmsprop">,
    Option<"beta1", "beta1", "double", "0.9", "for adam, adamw, lamb">,
    Option<"beta2", "beta2", "double", "0.999", "for adam, adamw, lamb">,
    Option<"alpha", "alpha", "double", "0.99", "for rmsprop">,
    Option<"centered", "centered", "bool", "false", "for rmsprop">,
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
    result without a derivative (batch_norm's statistics).

    Before:

    ```mlir
    func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x3xf32>) -> tensor<8x3xf32> {
      %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
      %loss = mpc.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
      %dw = mpc.gradient %loss wrt %w : tensor<f32>, (tensor<8x3xf32>) -> (tensor<8x3xf32>)
      return %dw : tensor<8x3xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
    %2 = mpc.gradient_seed {mpc.phase = #mpc.phase<backward>} : tensor<f32>
    %3 = mpc.reshape %2 {mpc.phase = #mpc.phase<backward>} : (tensor<f32>) -> tensor<1x1xf32>
    %4 = mpc.expand %3 {mpc.phase = #mpc.phase<backward>} : (tensor<1x1xf32>) -> tensor<4x3xf32>
    %5 = mpc.matmul %x, %4 {mpc.phase = #mpc.phase<backward>, transA = true}
        : (tensor<4x8xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    return %5 : tensor<8x3xf32>
    ```

    Afterwards no `mpc.gradient` and no `mpc.stop_gradient` is left.
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

    Operands that the loop no longer reads stay until it is canonicalized.

    Before:

    ```mlir
    func.func @step(%x: tensor<35x20x64xf32>, %w: tensor<64x96xf32>) -> tensor<35x20x96xf32> {
      %all = mpc.scan 35 scanned(%x : tensor<35x20x64xf32>) invariant(%w : tensor<64x96xf32>)
          -> (tensor<35x20x96xf32>) {
      ^bb0(%x_t: tensor<20x64xf32>, %u: tensor<64x96xf32>):
        %0 = mpc.matmul %x_t, %u : (tensor<20x64xf32>, tensor<64x96xf32>) -> tensor<20x96xf32>
        %1 = mpc.tanh %0 : (tensor<20x96xf32>) -> tensor<20x96xf32>
        mpc.yield %1 : tensor<20x96xf32>
      } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>}
      return %all : tensor<35x20x96xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.reshape %x : (tensor<35x20x64xf32>) -> tensor<700x64xf32>
    %1 = mpc.matmul %0, %w : (tensor<700x64xf32>, tensor<64x96xf32>) -> tensor<700x96xf32>
    %2 = mpc.reshape %1 : (tensor<700x96xf32>) -> tensor<35x20x96xf32>
    %3 = mpc.scan 35 scanned(%x, %2 : tensor<35x20x64xf32>, tensor<35x20x96xf32>)
        invariant(%w : tensor<64x96xf32>) -> (tensor<35x20x96xf32>) {
    ^bb0(%arg2: tensor<20x64xf32>, %arg3: tensor<20x96xf32>, %arg4: tensor<64x96xf32>):
      %4 = mpc.tanh %arg3 : (tensor<20x96xf32>) -> tensor<20x96xf32>
      mpc.yield %4 : tensor<20x96xf32>
    } {reversed_inputs = array<i1: false, false>, reversed_outputs = array<i1: false>}
    return %3 : tensor<35x20x96xf32>
    ```
  }];
  let dependentDialects = ["::mpc::MPCDialect"];
}

def KeepEvaluationPass : Pass<"mpc-keep-evaluation", "::mlir::ModuleOp"> {
  let summary = "takes away what only training needs";
  let description = [{
    Erases `@step`, `@accumulate` and `@update`, and the variables that no other
    function reads: what is left is `@eval`, and `@derive` where there is one. A
    module without `@eval` stays as it is.

    Before:

    ```mlir
    mpc.variable @w : tensor<3xf32> role parameter
    mpc.variable @w.momentum : tensor<3xf32> role optimizer_state
    func.func @step(%x: tensor<3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                    %m: tensor<3xf32> {mpc.state = @w.momentum})
        -> (tensor<3xf32> {mpc.updates = @w.momentum}) {
      %0 = mpc.add %x, %m : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }
    func.func @eval(%x: tensor<3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                    %w: tensor<3xf32> {mpc.state = @w})
        -> (tensor<3xf32> {mpc.output = "y", mpc.role = #mpc.role<prediction>}) {
      %y = mpc.mul %x, %w : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      return %y : tensor<3xf32>
    }
    ```

    After:

    ```mlir
    module {
      mpc.variable @w : tensor<3xf32> role parameter
      func.func @eval(%x: tensor<3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
          %w: tensor<3xf32> {mpc.state = @w})
          -> (tensor<3xf32> {mpc.output = "y", mpc.role = #mpc.role<prediction>}) {
        %y = mpc.mul %x, %w : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
        return %y : tensor<3xf32>
      }
    }
    ```
  }];
}

#endif // MPC_PASSES_DIFFERENTIATION_PASSES_TD
