// Control flow: mpc.scan repeats a body, mpc.if chooses between two.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCCONTROLOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCCONTROLOPS_TD

include "compiler/Dialect/MPC/MPC.td"
include "compiler/Interfaces/BodyOpInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def MPC_ScanOp : MPC_Op<"scan", [Pure, IsolatedFromAbove,
    AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<BodyOpInterface, ["getNumCarried"]>,
    SingleBlockImplicitTerminator<"::mpc::YieldOp">]> {
  let summary = "runs its body once for each part of its tensors";
  let description = [{
    Runs the body `length` times, on three kinds of operands:

    - `carried` values: the operand at first, then the value that the previous
      iteration yielded;
    - parts of `scanned` operands: the next part along axis 0, or from last to
      first if `reversed_inputs` is set for the operand;
    - `invariant` operands, unchanged.

    The body yields the new carried values, then parts. The results are the
    carried values after the last iteration, then one stack per yielded part
    along a new axis 0, stored from last to first if `reversed_outputs` is set.
    The body reads block arguments only. So passes that look at operands see
    every value, and no gradient is lost.

    A recurrent cell over 35 steps, with all its states:

    ```mlir
    %last, %all = mpc.scan 35 carried(%h0 : tensor<20x64xf32>)
        scanned(%x : tensor<35x20x64xf32>) invariant(%w : tensor<64x64xf32>)
        -> (tensor<20x64xf32>, tensor<35x20x64xf32>) {
    ^bb0(%h: tensor<20x64xf32>, %x_t: tensor<20x64xf32>, %u: tensor<64x64xf32>):
      %0 = mpc.matmul %h, %u : (tensor<20x64xf32>, tensor<64x64xf32>) -> tensor<20x64xf32>
      %1 = mpc.add %0, %x_t : (tensor<20x64xf32>, tensor<20x64xf32>) -> tensor<20x64xf32>
      %2 = mpc.tanh %1 : (tensor<20x64xf32>) -> tensor<20x64xf32>
      mpc.yield %2, %2 : tensor<20x64xf32>, tensor<20x64xf32>
    } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>}
    ```
  }];
  let arguments = (ins I64Attr:$length, Variadic<AnyRankedTensor>:$carried,
                       Variadic<AnyRankedTensor>:$scanned,
                       Variadic<AnyRankedTensor>:$invariant,
                       DenseBoolArrayAttr:$reversed_inputs,
                       DenseBoolArrayAttr:$reversed_outputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $length (`carried` `(` $carried^ `:` type($carried) `)`)?
    (`scanned` `(` $scanned^ `:` type($scanned) `)`)?
    (`invariant` `(` $invariant^ `:` type($invariant) `)`)?
    `->` `(` type($outputs) `)` $body attr-dict
  }];
  let skipDefaultBuilders = 1;
  let builders = [
    // Creates the body's block with arguments, but without a terminator.
    // `stacked` has the types of the results after the carried values.
    OpBuilder<(ins "int64_t":$length, "::mlir::ValueRange":$carried,
                   "::mlir::ValueRange":$scanned,
                   "::mlir::ValueRange":$invariant,
                   "::mlir::TypeRange":$stacked,
                   "::llvm::ArrayRef<bool>":$reversedInputs,
                   "::llvm::ArrayRef<bool>":$reversedOutputs)>];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    /// Returns the type of one part of a scanned operand or stacked result:
    /// `type` without axis 0.
    static ::mlir::RankedTensorType getPartType(::mlir::Type type);
    /// Returns the type of a stack of `length` parts: `part` with a new axis 0.
    static ::mlir::RankedTensorType getStackType(::mlir::Type part, int64_t length);

    unsigned getNumStacked() { return getNumResults() - getNumCarried(); }
    ::llvm::ArrayRef<::mlir::BlockArgument> getCarriedArguments();
    ::llvm::ArrayRef<::mlir::BlockArgument> getScannedArguments();
    ::llvm::ArrayRef<::mlir::BlockArgument> getInvariantArguments();
    ::mlir::ResultRange getLast() { return getResults().take_front(getNumCarried()); }
    ::mlir::ResultRange getStacked() { return getResults().drop_front(getNumCarried()); }
    ::mlir::Operation *getYield() { return getBody().front().getTerminator(); }
    /// Adds a scanned operand, or below an invariant one, and returns its block
    /// argument. Reuses an equal operand if there is one.
    ::mlir::BlockArgument addScanned(::mlir::Value value, bool reversed);
    ::mlir::BlockArgument addInvariant(::mlir::Value value);
    /// Replaces this op by a scan that also returns `parts`, values of the
    /// body, each stacked over all iterations. The new op takes over the body.
    ScanOp addStacked(::mlir::RewriterBase &rewriter,
                      ::mlir::ValueRange parts,
                      ::llvm::ArrayRef<bool> reversed);
  }];
}

/// A scalar boolean.
def MPC_Condition : Type<TensorRankOf<[I1], [0]>.predicate, "tensor<i1>",
                         "::mlir::RankedTensorType">,
    BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI1Type())">;

def MPC_IfOp : MPC_Op<"if", [Pure, IsolatedFromAbove,
    DeclareOpInterfaceMethods<BodyOpInterface>,
    SingleBlockImplicitTerminator<"::mpc::YieldOp">]> {
  let summary = "runs one of two branches";
  let description = [{
    Runs the first body if the condition holds, else the second. Both bodies
    have one argument per `captured` operand, and yield values of equal types:
    the results. As for `mpc.scan`, a body reads block arguments only.

    ```mlir
    %y = mpc.if %condition captured(%x, %w : tensor<20x64xf32>, tensor<64x64xf32>)
        -> (tensor<20x64xf32>) {
    ^bb0(%a: tensor<20x64xf32>, %b: tensor<64x64xf32>):
      %0 = mpc.matmul %a, %b : (tensor<20x64xf32>, tensor<64x64xf32>) -> tensor<20x64xf32>
      mpc.yield %0 : tensor<20x64xf32>
    } else {
    ^bb0(%a: tensor<20x64xf32>, %b: tensor<64x64xf32>):
      mpc.yield %a : tensor<20x64xf32>
    }
    ```
  }];
  let arguments = (ins MPC_Condition:$condition,
                       Variadic<AnyRankedTensor>:$captured);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$then_body, SizedRegion<1>:$else_body);
  let assemblyFormat = [{
    $condition (`captured` `(` $captured^ `:` type($captured) `)`)?
    `->` `(` type($outputs) `)` $then_body `else` $else_body attr-dict
  }];
  let skipDefaultBuilders = 1;
  let builders = [
    // Creates the blocks of both branches with arguments, but without
    // terminators.
    OpBuilder<(ins "::mlir::TypeRange":$outputs, "::mlir::Value":$condition,
                   "::mlir::ValueRange":$captured)>];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getThenBlock() { return getThenBody().front(); }
    ::mlir::Block &getElseBlock() { return getElseBody().front(); }
  }];
}

def MPC_ScanCallOp : MPC_Op<"scan_call", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "an mpc.scan whose body is a function";
  let description = [{
    `mpc-outline-bodies` converts an `mpc.scan` to this op, so that passes on
    functions see the body as a function. The function has the arguments and
    results of the body.

    ```mlir
    %last, %all = mpc.scan_call @step_scan 35 carried(%h0 : tensor<20x64xf32>)
        scanned(%x : tensor<35x20x64xf32>)
        {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>}
        -> (tensor<20x64xf32>, tensor<35x20x64xf32>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$function, I64Attr:$length,
                       Variadic<AnyRankedTensor>:$carried,
                       Variadic<AnyRankedTensor>:$scanned,
                       Variadic<AnyRankedTensor>:$invariant,
                       DenseBoolArrayAttr:$reversed_inputs,
                       DenseBoolArrayAttr:$reversed_outputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $function $length (`carried` `(` $carried^ `:` type($carried) `)`)?
    (`scanned` `(` $scanned^ `:` type($scanned) `)`)?
    (`invariant` `(` $invariant^ `:` type($invariant) `)`)?
    attr-dict `->` `(` type($outputs) `)`
  }];
}

def MPC_IfCallOp : MPC_Op<"if_call", [Pure,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "an mpc.if whose branches are functions";
  let description = [{
    `mpc-outline-bodies` converts an `mpc.if` to this op. Both functions have
    the arguments and results of the branches.

    ```mlir
    %y = mpc.if_call %condition @step_then else @step_else(%x, %w)
        : (tensor<20x64xf32>, tensor<64x64xf32>) -> tensor<20x64xf32>
    ```
  }];
  let arguments = (ins MPC_Condition:$condition,
                       FlatSymbolRefAttr:$then_function,
                       FlatSymbolRefAttr:$else_function,
                       Variadic<AnyRankedTensor>:$captured);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $condition $then_function `else` $else_function `(` $captured `)` attr-dict
    `:` functional-type($captured, $outputs)
  }];
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCCONTROLOPS_TD
