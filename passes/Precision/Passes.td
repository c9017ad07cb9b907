// The passes of the Precision stage, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_PASSES_TD
#define MPC_PASSES_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignPrecisionPass : Pass<"amp-assign-precision", "::mlir::ModuleOp"> {
  let summary = "decide the types of every op, and record why";
  let description = [{
    Decides, over forward, backward and update of all functions at once, in
    which type every value is stored and which type contractions multiply. The
    outcome is an `amp.decision` on every op with floats and a remark of
    category `amp`; no type changes yet.

    Expects expanded gradients and the types of the model.

    ```mlir
    %y = mpc.gemm %x, %w : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    ```
    becomes
    ```mlir
    %y = mpc.gemm %x, %w {amp.decision = #amp.decision<compute = bf16, ...>}
        : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    ```

    Afterwards every op with floats has a record, and the module says for which
    mode it was decided. Tested by assign-precision.mlir.
  }];
  let options = [
    Option<"mode", "mode", "std::string", "\"32-true\"",
           "32-true, 16-mixed, bf16-mixed or 64-true">,
    Option<"policy", "policy", "std::string", "\"\"",
           "a policy file or preset laid over the default table">,
    ListOption<"keepFP32", "keep-fp32", "std::string",
               "expressions for names of nodes to keep in fp32">,
    ListOption<"forceLow", "force-low", "std::string",
               "expressions for names of nodes to make low">,
  ];
  let dependentDialects = ["::mpc::amp::AMPDialect"];
}

def InsertCastsPass : Pass<"amp-insert-casts", "::mlir::ModuleOp"> {
  let summary = "carry out the decisions";
  let description = [{
    Gives every result the type it is to be stored in, which is where its op
    rounds, and inserts an `amp.cast` where an op must read another type. One
    cast of a value to a type serves all readers.

    Expects `amp.decision` on every op with floats.

    ```mlir
    %y = mpc.gemm %x, %w {amp.decision = ...}
        : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    ```
    becomes
    ```mlir
    %0 = amp.cast %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %1 = amp.cast %w : (tensor<8x2xf32>) -> tensor<8x2xbf16>
    %y = mpc.gemm %0, %1 {amp.decision = ...}
        : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xf32>
    ```

    Afterwards types are as decided; those at function boundaries have not
    changed. Tested by insert-casts.mlir.
  }];
  let dependentDialects = ["::mpc::amp::AMPDialect"];
}

def OptimizeCastsPass : Pass<"amp-optimize-casts", "::mlir::ModuleOp"> {
  let summary = "share, cancel and move casts without changing a rounding";
  let description = [{
    Shares casts of one value to one type; removes pairs that widen and narrow
    back; casts before a view or movement instead of after it where nothing else
    reads that; and casts constants now. A value that is rounded stays rounded,
    exactly once.

    ```mlir
    %0 = mpc.transpose %w {perm = array<i64: 1, 0>} : (tensor<8x2xf32>) -> tensor<2x8xf32>
    %1 = amp.cast %0 : (tensor<2x8xf32>) -> tensor<2x8xbf16>
    ```
    becomes
    ```mlir
    %0 = amp.cast %w : (tensor<8x2xf32>) -> tensor<8x2xbf16>
    %1 = mpc.transpose %0 {perm = array<i64: 1, 0>} : (tensor<8x2xbf16>) -> tensor<2x8xbf16>
    ```

    Afterwards the counts of casts in all records are those of the IR. Tested by
    optimize-casts.mlir.
  }];
  let dependentDialects = ["::mpc::amp::AMPDialect"];
}

def InsertLossScalingPass : Pass<"amp-insert-loss-scaling", "::mlir::ModuleOp"> {
  let summary = "scale the loss's gradient, unscale gradients, guard the update";
  let description = [{
    Replaces every `mpc.gradient_seed` by ones times the loss scale; divides
    every gradient by it where it enters clipping or the optimizer; makes the
    update conditional on all gradients being finite; and advances the scale.
    All of it is state and tensors of the functions: the host is not asked.

    With `none`, seeds become ones and nothing else happens. With a number the
    scale is that constant and the update is still guarded.

    ```mlir
    %s = mpc.gradient_seed : tensor<f32>
    %g = "gradient of"(%s)
    %p1 = mpc.sgd %p, %g, %lr : ...
    ```
    becomes
    ```mlir
    %one = mpc.constant dense<1.0> : tensor<f32>
    %s = amp.scale_loss %one, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = "gradient of"(%s)
    %u = amp.unscale %g, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %ok = amp.all_finite %u : (tensor<8xf32>) -> tensor<i1>
    %p1 = mpc.sgd %p, %u, %lr, %ok : ...
    %scale1, %good1, %left1 = amp.update_scale %scale, %good, %left, %ok {...} : ...
    ```

    Afterwards no seed is left, and each gradient is unscaled exactly once.
    Tested by insert-loss-scaling.mlir.
  }];
  let options = [
    Option<"lossScale", "loss-scale", "std::string", "\"\"",
           "dynamic, none or a number; empty: what the mode needs">,
    Option<"initScale", "init-scale", "double", "65536.0",
           "the first dynamic scale">,
    Option<"growthFactor", "growth-factor", "double", "2.0",
           "what the scale is multiplied by when it grows">,
    Option<"backoffFactor", "backoff-factor", "double", "0.5",
           "what the scale is multiplied by after an overflow">,
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
    A parameter stays an fp32 master; the cast of it that contractions read
    becomes a variable `@<param>.low` of role `derived`, which every function
    that updates the parameter writes too, and which `@derive` computes when
    state is loaded. So a step reads half the bytes and casts no weight.

    ```mlir
    func.func @step(%w: tensor<8x2xf32> {mpc.state = @w}, ...) {
      %0 = amp.cast %w : (tensor<8x2xf32>) -> tensor<8x2xbf16>
    ```
    becomes
    ```mlir
    func.func @step(%w: tensor<8x2xf32> {mpc.state = @w}, ...,
                    %0: tensor<8x2xbf16> {mpc.state = @w.low}) {
    ```

    Afterwards no function casts a parameter except where it updates it. Tested
    by insert-master-weights.mlir.
  }];
  let dependentDialects = ["::mpc::amp::AMPDialect"];
}

def ConvertFloatTypePass : Pass<"amp-convert-float-type", "::mlir::ModuleOp"> {
  let summary = "replace one float type by another everywhere";
  let description = [{
    The whole of 64-true: state, inputs, constants and results of type fp32
    become fp64; initial values keep theirs exactly.

    ```mlir
    %y = mpc.relu %x : (tensor<8xf32>) -> tensor<8xf32>
    ```
    becomes
    ```mlir
    %y = mpc.relu %x : (tensor<8xf64>) -> tensor<8xf64>
    ```

    Afterwards no fp32 is left. Tested by convert-float-type.mlir.
  }];
}

def VerifyPrecisionPass : Pass<"amp-verify-precision", "::mlir::ModuleOp"> {
  let summary = "prove that the stage kept its rules";
  let description = [{
    Reports every violation of, relative to the module's mode:

    1. every op with floats has a record, and has the types it says; the types
       are those of the mode, and the class is what the policy says, asked again;
    2. a denied op is not low, and reads nothing that the stage has rounded, nor
       does an operand that policy keeps in fp32 (scales of a normalisation): not
       by a cast, by a low op before it, nor as a low copy;
    3. contractions multiply the type decided; every sum is formed in fp32 at
       least, and so is all state that sums (accumulators, statistics, moments,
       masters), and results that policy keeps in fp32;
    4. no cast reads what another cast has rounded, directly or through views;
    5. the loss is scaled once, and every gradient is unscaled once, by the same
       scale, before clipping and the optimizer. Between the two only ops that
       are linear read it, every sum, choice or concatenation is of multiples of
       one scale, and what is the scale itself stays fp32. Only accumulators
       leave a function scaled, and they all do;
    6. where the loss is scaled, no state of the update changes unless every
       unscaled gradient of it is finite;
    7. optimizers read and write fp32, and what is rounded leaves a function only
       as a low copy;
    8. a low copy is made by @derive, and written wherever its master is;
    9. no gradient or seed is left unexpanded.

    The loss scale is interpreted, not looked for: LossScaleAnalysis.h. Changes
    nothing. The options are those that `amp-assign-precision` was given; without
    `amp.mode` on the module classes are taken from the records. Tested by
    verify-precision.mlir, verify-precision-errors.mlir and
    verify-loss-scale-errors.mlir.
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"\"",
           "the policy file or preset the module was decided by">,
  ];
}

#endif // MPC_PASSES_PRECISION_PASSES_TD
