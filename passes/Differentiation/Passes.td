// The passes of the Differentiation stage, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_PASSES_TD
#define MPC_PASSES_DIFFERENTIATION_PASSES_TD

include "mlir/Pass/PassBase.td"

def AddAdaptersPass : Pass<"mpc-add-adapters", "::mlir::ModuleOp"> {
  let summary = "add low-rank adapters to the layers of a forward model";
  let description = [{
    For each weight W [out, in] that a `lora` of the recipe chooses, declares the
    parameters A [rank, in], of uniform random numbers, and B [out, rank], of
    zeros. Adds alpha / rank * B A x to every product W x. Without a pattern, a
    `lora` chooses the weights of all matmul and gemm layers but the last. A
    pattern also chooses the last layer, and 1x1 convolutions. If several match a
    weight, the last counts.

    Only weights that nothing but products read can have an adapter. A weight
    need not be a variable: an adapter also fits a weight that constants
    determine, such as dequantized integers. A variable with the name of A or B
    and the attribute `mpc.adapter` keeps its value.

    Options change the recipe (RecipeOptions.h). A recipe without `lora` changes
    nothing.

    Before:

    ```mlir
    mpc.variable @fc1.weight : tensor<8x16xf32> role parameter
    func.func @forward(%x: tensor<4x16xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                       %w: tensor<8x16xf32> {mpc.state = @fc1.weight})
        -> (tensor<4x8xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
      %y = mpc.gemm %x, %w {transB = true}
          : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After, with `lora=2:4@fc1`:

    ```mlir
    mpc.variable @fc1.weight : tensor<8x16xf32> role parameter
    mpc.variable @fc1.lora_A.weight : tensor<2x16xf32> role parameter init ...
    mpc.variable @fc1.lora_B.weight : tensor<8x2xf32> role parameter {mpc.adapter}
    func.func @forward(%x: ..., %w: ...,
        %a: tensor<2x16xf32> {mpc.state = @fc1.lora_A.weight},
        %b: tensor<8x2xf32> {mpc.state = @fc1.lora_B.weight})
        -> (tensor<4x8xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
      %y = mpc.gemm %x, %w {transB = true}
          : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
      %ax = mpc.matmul %x, %a {transB = true}
          : (tensor<4x16xf32>, tensor<2x16xf32>) -> tensor<4x2xf32>
      %bax = mpc.matmul %ax, %b {alpha = 2.000000e+00 : f64, transB = true}
          : (tensor<4x2xf32>, tensor<8x2xf32>) -> tensor<4x8xf32>
      %sum = mpc.add %y, %bax : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      return %sum : tensor<4x8xf32>
    }
    ```
  }];
  let dependentDialects = ["::mpc::MPCDialect"];
}

def AddLossPass : Pass<"mpc-add-loss", "::mlir::ModuleOp"> {
  let summary = "turn a forward model into @step and @eval with a loss";
  let description = [{
    `@forward` becomes `@step`: the loss replaces the outputs, and the labels
    become an input (an `i64` class per position for `softmax_cross_entropy`,
    otherwise the output's shape and type). Updates of running statistics stay.
    `@eval` is a copy in inference mode: dropout is removed, and batch_norm uses
    the running statistics. `@eval` returns the loss, the loss of every sample
    if the model's leading axis is the batch, and the prediction. For losses of
    class labels, `@eval` also returns which labels were predicted.

    In scores of rank 2, classes are on axis 1. In a higher rank, classes are on
    axis 1 or the last axis, whichever leaves the shape of the labels (of an
    input of the model, or `label-shape`). If both axes do, or the shape is
    unknown, `loss=softmax_cross_entropy@OUTPUT:AXIS` must name the axis. If the
    leading axis of the scores is a multiple of the batch, each sample has
    several labels.
    Samples are traced from the inputs. An output with samples on another axis
    than 0, or with samples and positions merged in one axis (time-major, say),
    is transposed, so that labels have a row per sample.

    If labels have weights, because of class weights or an ignored class, the
    mean divides by the sum of the labels' weights. A batch with total weight 0
    has loss 0 and no gradient. `@eval` then also returns the weight of each
    sample, and the samples' losses are weighted sums. The mean over all samples
    is the sum of the losses divided by the sum of the weights.

    Several losses are added up, each multiplied by its factor. Accuracy and
    prediction are those of the first loss. Sample losses that are divided by
    weights become separate outputs, `sample_loss_1` with `sample_weight_1` and
    so on, next to the sum of the others.

    The module must have a `@forward`. The losses and their settings are those
    of the module's `mpc.recipe`. Options change the recipe, and are called like
    the flags of `mpc`, without dashes (RecipeOptions.h).

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
    Option<"float64", "float64", "bool", "false",
           "the loss and targets of float16 and bfloat16 outputs are f64, not "
           "f32">,
  ];
  let dependentDialects = ["::mpc::MPCDialect", "::mlir::func::FuncDialect"];
}

def AddOptimizerPass : Pass<"mpc-add-optimizer", "::mlir::ModuleOp"> {
  let summary = "add gradients of the loss and the update of the parameters";
  let description = [{
    Adds to `@step` an `mpc.gradient` of the loss with respect to every
    trainable parameter, clipping, an optimizer op per parameter with its state
    variables, and the counters. With `accumulate` above 1, `@step` becomes
    `@accumulate`, which adds the gradients to accumulators, and `@update`,
    which reads and clears the accumulators.

    Trainable variables are the floats of role `parameter` that a gradient
    reaches. With `train`, variables of any role except `statistic` are
    trainable if a pattern matches. `freeze` then removes matches. In a module
    with adapters, these are trained, and else only matches of `train`. Roles are
    updated accordingly. If patterns freeze the scale and bias of a batch_norm,
    the op becomes a batch_norm_inference, and its running statistics are no
    longer updated. `no-decay` exempts parameters from weight decay. `lr-scale`
    multiplies their learning rate by a factor; the last match holds. With `ema`
    above 0, every trained parameter @p has an average @p.ema. The average
    starts as @p and moves by 1 - ema of the distance towards each new value.

    The optimizer and its settings are those of the module's `mpc.recipe`.
    Options change the recipe, and are called like the flags of `mpc`, but for
    `epsilon`, `accumulate` and `clip-norm` (RecipeOptions.h).

    Expects `@step` from `mpc-add-loss`. With `given-gradients`, results of role
    `gradient`, each named like its variable, replace `mpc.gradient`; a module
    without such results stays unchanged.

    With `data-parallel`, an `mpc.all_reduce` of each gradient, or of each
    accumulator in `@update`, gives the mean over the ranks of a distributed
    run, before everything else that reads the gradient. Sums of losses, and
    `accumulate-reduction=sum`, have the sum over the ranks. The reduction of a
    parameter whose uses are all `mpc.gather` along axis 0 has `rows`. With
    `shard-optimizer`, only the rank that owns the parameter gets the result.

    With `sync-batch-norm` too, each `mpc.batch_norm` and its gradient get the
    attribute `mpc.over_ranks`.

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
    Option<"givenGradients", "given-gradients", "bool", "false",
           "use the gradients that @step returns, if any">,
  ];
  let dependentDialects = ["::mpc::MPCDialect", "::mlir::func::FuncDialect"];
}

def ExpandGradientsPass : Pass<"mpc-expand-gradients", "::mlir::ModuleOp"> {
  let summary = "build the backward pass that mpc.gradient stands for";
  let description = [{
    Replaces every `mpc.gradient` by the ops that compute the gradient, from an
    `mpc.gradient_seed` at Y backwards. Each op is located at `node#dx` (or
    another suffix for the operand) and has `mpc.phase = #mpc.phase<backward>`.
    Gradients are f32, or f64 for f64 values; gradients of several uses are
    added in that type. If ops between Y and an X have no rule, an error lists
    them all. A loss that reads a result without a derivative (batch_norm's
    statistics) is an error too.

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
  let summary = "compute the products of all iterations at once";
  let description = [{
    Moves work out of every `mpc.scan` that can be done for all iterations
    together:

    - Before the loop: ops with only invariant operands, and products of parts
      of scanned operands with invariant operands.
    - After the loop: products with invariant operands whose results are only
      stacked, and sums of products and of rows over all iterations, such as
      gradients of weights. The loop stacks the factors instead.

    Operands that the loop no longer reads stay until canonicalization.

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
  let summary = "remove state and outputs that only training needs";
  let description = [{
    Erases `@step`, `@accumulate` and `@update`, and the variables that no other
    function reads. `@eval` stays, and `@derive` if there is one. A module
    without `@eval` stays unchanged.

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
