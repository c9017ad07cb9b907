// The passes of the Precision stage, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_PASSES_TD
#define MPC_PASSES_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def FindLossGradientPass : Pass<"amp-find-loss-gradient", "::mlir::ModuleOp"> {
  let summary = "add a gradient seed to a backward pass that the model spells "
                "out";
  let description = [{
    A training graph may start its backward pass at any value, such as
    `(softmax(logits) - one_hot) / N`, instead of a constant of ones. If the
    loss is scaled, the pass multiplies the first suitable value by an
    `mpc.gradient_seed`. A value is suitable if it depends on all parameters and
    all gradients are provably its multiples. Without a suitable value, the pass
    reports an error. Non-linear computations on gradients, such as their norm,
    become part of the update, which reads unscaled gradients.

    Before:

    ```mlir
    mpc.variable @w : tensor<4x2xf32> role parameter
    func.func @step(%x: tensor<8x4xf32>, %t: tensor<8x2xf32>, %w: tensor<4x2xf32> {mpc.state = @w},
                    %lr: tensor<f32>) -> (tensor<4x2xf32> {mpc.updates = @w}) {
      %y = mpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
      %xt = mpc.transpose %x {mpc.phase = #mpc.phase<backward>, perm = array<i64: 1, 0>}
          : (tensor<8x4xf32>) -> tensor<4x8xf32>
      %d = mpc.sub %y, %t {mpc.phase = #mpc.phase<backward>}
          : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
      %g = mpc.matmul %xt, %d {mpc.phase = #mpc.phase<backward>}
          : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
      %w1 = mpc.sgd %w, %g, %lr : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
      return %w1 : tensor<4x2xf32>
    }
    ```

    After, with `mode=16-mixed`:

    ```mlir
    %xt = mpc.transpose %x {mpc.phase = #mpc.phase<backward>, perm = array<i64: 1, 0>}
        : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %d = mpc.sub %y, %t {mpc.phase = #mpc.phase<backward>}
        : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
    %seed = mpc.gradient_seed {mpc.phase = #mpc.phase<backward>} : tensor<f32>
    %s = mpc.mul %d, %seed {mpc.phase = #mpc.phase<backward>}
        : (tensor<8x2xf32>, tensor<f32>) -> tensor<8x2xf32>
    %g = mpc.matmul %xt, %s {mpc.phase = #mpc.phase<backward>}
        : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    ```
  }];
  let options = [
    Option<"mode", "mode", "std::string", "\"\"",
           "the precision mode; empty: that of amp.request">,
    Option<"lossScale", "loss-scale", "std::string", "\"\"",
           "dynamic, none or a number; empty: that of amp.request">,
  ];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::amp::AMPDialect"];
}

def AssignPrecisionPass : Pass<"amp-assign-precision", "::mlir::ModuleOp"> {
  let summary = "decide the types of every op, and record why";
  let description = [{
    Decides in which type every value is stored and which type contractions
    multiply, for forward, backward and update of all functions at once. The
    result is an `amp.decision` on every op with floats and a remark of category
    `amp`. No type changes yet.

    Expects expanded gradients and the model's types.

    Before:

    ```mlir
    func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
      %y = mpc.gemm %x, %w : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
      return %y : tensor<4x2xf32>
    }
    ```

    After, with `mode=bf16-mixed target=zen5`:

    ```mlir
    #decision = #amp.decision<operands = [bf16, bf16], results = [f32], compute = bf16,
        class = allow, rule = "default:gemm",
        why = "products of low operands are exact in fp32 sums", reason = allow_list,
        path = ["gemm"], evidence = assumed, flip = "--keep-fp32=^gemm~1$">
    module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.request = #amp.request<"bf16-mixed">} {
    func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
      %0 = mpc.gemm %x, %w {amp.decision = #decision, amp.id = "gemm~1"}
          : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
      return %0 : tensor<4x2xf32>
    }
    ```

    Afterwards every op with floats has a record, and the module names the mode.
    An op without a name, or with a name of several ops, has an id.
  }];
  let options = [
    Option<"mode", "mode", "std::string", "\"\"",
           "32-true, 16-mixed, bf16-mixed or 64-true; empty: that of "
           "amp.request">,
    Option<"policy", "policy", "std::string", "\"\"",
           "a policy file or preset laid over the default table; empty: that "
           "of amp.request">,
    ListOption<"keepFP32", "keep-fp32", "std::string",
               "expressions for names of nodes to keep in fp32">,
    ListOption<"forceLow", "force-low", "std::string",
               "expressions for names of nodes to compute in the low type">,
    Option<"listFollowers", "list-followers", "bool", "false",
           "record which other ops follow if a decision is flipped; in large "
           "models, not for decisions that very many ops follow">,
  ];
  let dependentDialects = ["::mpc::amp::AMPDialect"];
}

def InsertCastsPass : Pass<"amp-insert-casts", "::mlir::ModuleOp"> {
  let summary = "insert the casts that the decisions need";
  let description = [{
    Gives every result its stored type, so its op rounds, and inserts an
    `amp.cast` if an op must read another type. All users of a value in one type
    share a cast.

    Expects `amp.decision` on every op with floats.

    Before:

    ```mlir
    #decided = #amp.decision<operands = [bf16, bf16], results = [f32], compute = bf16,
        class = allow, rule = "default:gemm", why = "", reason = allow_list, path = [], evidence = assumed>
    func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
      %y = mpc.gemm %x, %w {amp.decision = #decided}
          : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
      return %y : tensor<4x2xf32>
    }
    ```

    After:

    ```mlir
    %0 = amp.cast %w : (tensor<8x2xf32>) -> tensor<8x2xbf16>
    %1 = amp.cast %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %y = mpc.gemm %1, %0 {amp.decision = ...}
        : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xf32>
    return %y : tensor<4x2xf32>
    ```

    Afterwards all types are as decided. Types at function boundaries are
    unchanged.
  }];
  let dependentDialects = ["::mpc::amp::AMPDialect"];
}

def OptimizeCastsPass : Pass<"amp-optimize-casts", "::mlir::ModuleOp"> {
  let summary = "share, cancel and move casts without changing a rounding";
  let description = [{
    Shares casts of one value to one type. Removes pairs that widen and narrow
    back. Casts before a view or movement instead of after, if nothing else
    reads the moved value. Casts constants at compile time. A value that is
    rounded stays rounded, exactly once.

    Before:

    ```mlir
    func.func @step(%w: tensor<8x2xf32>) -> tensor<2x8xbf16> {
      %0 = mpc.transpose %w {perm = array<i64: 1, 0>} : (tensor<8x2xf32>) -> tensor<2x8xf32>
      %1 = amp.cast %0 : (tensor<2x8xf32>) -> tensor<2x8xbf16>
      return %1 : tensor<2x8xbf16>
    }
    ```

    After:

    ```mlir
    %0 = amp.cast %w : (tensor<8x2xf32>) -> tensor<8x2xbf16>
    %1 = mpc.transpose %0 {perm = array<i64: 1, 0>} : (tensor<8x2xbf16>) -> tensor<2x8xbf16>
    return %1 : tensor<2x8xbf16>
    ```
  }];
  let dependentDialects = ["::mpc::amp::AMPDialect"];
}

def InsertLossScalingPass : Pass<"amp-insert-loss-scaling", "::mlir::ModuleOp"> {
  let summary = "scale the loss's gradient, unscale gradients, guard the update";
  let description = [{
    Replaces every `mpc.gradient_seed` by ones times the loss scale. Divides
    every gradient by the scale where the gradient enters clipping or the
    optimizer. Makes the update conditional on all gradients being finite, and
    advances the scale. All of this is state and tensors of the functions; the
    host takes no part.

    With `none`, seeds become ones and nothing else happens. With a number, the
    scale is a constant and the update is still guarded.

    Before:

    ```mlir
    mpc.variable @p : tensor<8xf32> role parameter
    mpc.variable @mpc.step : tensor<i64> role counter
    func.func @step(%p: tensor<8xf32> {mpc.state = @p}, %step: tensor<i64> {mpc.state = @mpc.step},
                    %lr: tensor<f32>)
        -> (tensor<8xf32> {mpc.updates = @p}, tensor<i64> {mpc.updates = @mpc.step}) {
      %next = mpc.increment %step : (tensor<i64>) -> tensor<i64>
      %seed = mpc.gradient_seed : tensor<f32>
      %g = mpc.mul %p, %seed {mpc.phase = #mpc.phase<backward>} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
      %p1 = mpc.sgd %p, %g, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
      return %p1, %next : tensor<8xf32>, tensor<i64>
    }
    ```

    After, with `loss-scale=dynamic`:

    ```mlir
    mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 6.553600e+04
    mpc.variable @mpc.good_steps : tensor<i64> role loss_scale
    mpc.variable @mpc.hysteresis : tensor<i64> role loss_scale fill 1.000000e+00
    func.func @step(%p: ..., %step: ..., %lr: ...,
        %scale: tensor<f32> {mpc.state = @mpc.loss_scale},
        %good: tensor<i64> {mpc.state = @mpc.good_steps},
        %left: tensor<i64> {mpc.state = @mpc.hysteresis}) -> ... {
      %one = mpc.constant dense<1.000000e+00> : tensor<f32>
      %s = amp.scale_loss %one, %scale {mpc.phase = #mpc.phase<backward>}
          : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %g = mpc.mul %p, %s {mpc.phase = #mpc.phase<backward>}
          : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
      %u = amp.unscale %g, %scale {mpc.phase = #mpc.phase<optimizer>}
          : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
      %ok = amp.all_finite %u {mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>) -> tensor<i1>
      %scale1, %good1, %left1 = amp.update_scale %scale, %good, %left, %ok {...}
          : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>)
          -> (tensor<f32>, tensor<i64>, tensor<i64>)
      %step1 = mpc.increment %step, %ok : (tensor<i64>, tensor<i1>) -> tensor<i64>
      %p1 = mpc.sgd %p, %u, %lr, %ok
          : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
      return %p1, %step1, %scale1, %good1, %left1, %ok, %scale : ...
    }
    ```

    Afterwards no seed is left, and each gradient is unscaled exactly once.
  }];
  let options = [
    Option<"lossScale", "loss-scale", "std::string", "\"\"",
           "dynamic, none or a number; empty: that of amp.request">,
    Option<"initScale", "init-scale", "double", "65536.0",
           "the first dynamic scale">,
    Option<"growthFactor", "growth-factor", "double", "2.0",
           "the factor by which the scale grows">,
    Option<"backoffFactor", "backoff-factor", "double", "0.5",
           "the factor on the scale after overflows">,
    Option<"growthInterval", "growth-interval", "int64_t", "2000",
           "finite steps in a row after which the scale grows">,
    Option<"hysteresis", "hysteresis", "int64_t", "1",
           "overflows until the scale shrinks">,
    Option<"minScale", "min-scale", "double", "6.103515625e-05",
           "the smallest scale: 2^-14">,
    Option<"maxScale", "max-scale", "double", "16777216.0",
           "the largest scale: 2^24">,
  ];
  let dependentDialects = ["::mpc::amp::AMPDialect"];
}

def InsertMasterWeightsPass : Pass<"amp-insert-master-weights", "::mlir::ModuleOp"> {
  let summary = "keep low copies of parameters as derived state";
  let description = [{
    A parameter stays an fp32 master. The cast that contractions read becomes a
    variable `@<param>.low` of role `derived`. Every function that updates the
    parameter writes the copy too, and `@derive` computes the copy when state is
    loaded. So a step reads half the bytes and casts no weight.

    Before:

    ```mlir
    mpc.variable @w : tensor<8x2xf32> role parameter
    func.func @eval(%x: tensor<4x8xbf16>, %w: tensor<8x2xf32> {mpc.state = @w})
        -> tensor<4x2xf32> {
      %0 = amp.cast %w : (tensor<8x2xf32>) -> tensor<8x2xbf16>
      %y = mpc.matmul %x, %0 : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xf32>
      return %y : tensor<4x2xf32>
    }
    ```

    After:

    ```mlir
    mpc.variable @w : tensor<8x2xf32> role parameter
    mpc.variable @w.low : tensor<8x2xbf16> role derived
    func.func @eval(%x: tensor<4x8xbf16>, %w: tensor<8x2xf32> {mpc.state = @w},
        %low: tensor<8x2xbf16> {mpc.state = @w.low}) -> tensor<4x2xf32> {
      %0 = mpc.matmul %x, %low : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xf32>
      return %0 : tensor<4x2xf32>
    }
    func.func @derive(%arg0: tensor<8x2xf32> {mpc.state = @w})
        -> (tensor<8x2xbf16> {mpc.updates = @w.low}) {
      %0 = amp.cast %arg0 : (tensor<8x2xf32>) -> tensor<8x2xbf16>
      return %0 : tensor<8x2xbf16>
    }
    ```

    Afterwards functions cast a parameter only to update the copy.
  }];
  let dependentDialects = ["::mpc::amp::AMPDialect"];
}

def ConvertFloatTypePass : Pass<"amp-convert-float-type", "::mlir::ModuleOp"> {
  let summary = "replace one float type by another everywhere";
  let description = [{
    Implements 64-true: state, inputs, constants and results of type fp32 become
    fp64. Initial values are converted exactly.

    Before:

    ```mlir
    func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = mpc.relu %x : (tensor<8xf32>) -> tensor<8xf32>
      return %y : tensor<8xf32>
    }
    ```

    After:

    ```mlir
    func.func @step(%x: tensor<8xf64>) -> tensor<8xf64> {
      %0 = mpc.relu %x : (tensor<8xf64>) -> tensor<8xf64>
      return %0 : tensor<8xf64>
    }
    ```

    Afterwards no fp32 is left.
  }];
}

def VerifyPrecisionPass : Pass<"amp-verify-precision", "::mlir::ModuleOp"> {
  let summary = "check the rules of the Precision stage";
  let description = [{
    Reports every violation of these rules, for the module's mode and the
    `amp.request` of the user. The pass trusts no reason in a record: it computes
    the facts again (compiler/Precision/Facts.h).

    1. Every op with floats has a record and the recorded types. The types
       belong to the mode, and the mode to the request. Class and rule equal the
       policy's, which is consulted again, and a reason to keep the op holds. If
       a record names a 16-bit type of the model, an operand has this type in
       the model. An op has equal types and reads equal state in training and
       in evaluation. A sum is stored in a low type only if a low op reads it.
    2. An op is not low if policy denies the op, if the op belongs to a loss or
       to the update, or if the op computes new state. Nor if a constant takes
       values out of range or cancels them, if the op combines a low value with
       a large float32 value, or if `--keep-fp32` names the op. `--force-low` lifts ranges and
       denials. None of these ops reads values that the stage has rounded: by a
       cast, in a low op, or as a low copy. Nor does an operand that policy keeps
       in fp32 (scales of a normalisation). A constant is the model's, or is rounded
       from the model's and says what the model has, or is a seed of ones.
    3. Contractions multiply the decided type. Every sum is formed in fp32 at
       least. State that sums (accumulators, statistics, moments, masters) and
       results that policy keeps in fp32 are fp32 at least.
    4. No cast and no `amp.unscale` reads a value that another cast has rounded,
       a low copy or a rounded constant, directly or through bodies, views and movements of such values alone. No
       op reads a value through a cast that rounds, except to multiply or move
       the value.
    5. The loss is scaled once, as requested: by the state of a dynamic scale,
       which starts above 0, or by the requested number. All seeds are 1. Every gradient is unscaled once, by that scale,
       before clipping and the optimizer. In between, only linear ops read the
       gradient, every sum, selection or concatenation is of multiples of one
       scale, and the scale times constants stays fp32. All accumulators leave a
       function scaled, and nothing else does.
    6. If the loss is scaled, no state of the update changes unless every
       unscaled gradient is finite. This test alone drives `amp.update_scale`,
       and the function returns the new scale and the outcome of the test. A
       running statistic keeps its old
       value where the new value is not finite.
    7. Optimizers read and write fp32, and replace the state that they read. A rounded value leaves a function only as
       a low copy.
    8. @derive makes every low copy from its parameter, and every update of a master writes the
       copy.
    9. No gradient or seed is left unexpanded.

    The loss scale is checked by abstract interpretation (LossScaleAnalysis.h),
    not by matching patterns. The pass changes nothing. A module without
    `amp.mode` must have no low op.

    Before:

    ```mlir
    #decided = #amp.decision<operands = [any], results = [bf16], compute = f32,
        class = clear, rule = "default:relu", why = "", reason = between_low, path = [], evidence = assumed>
    func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %y = mpc.relu %x {amp.decision = #decided} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      return %y : tensor<4x4xf32>
    }
    ```

    After, instead of IR:

    ```text
    ...: error: ...expected result 0 in 'bf16' as decided, found 'f32'
    ```
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"\"",
           "the policy file or preset the module was decided by; empty: that "
           "of amp.request">,
  ];
}

#endif // MPC_PASSES_PRECISION_PASSES_TD
