// Reductions, cumulative sums, and ops composed of reductions, such as softmax.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCREDUCTIONOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCREDUCTIONOPS_TD

include "compiler/Dialect/MPC/MPCEnums.td"

class MPC_ReduceOp<string mnemonic, string what, Type type = MPC_NumberTensor>
    : MPC_TensorOp<mnemonic, "Reduction", [ReductionOpInterface]> {
  let summary = what # " over axes";
  let description = "The " # what # [{ over `axes` (sorted, non-negative), accumulated in f32 (f64
    in f64) in an order fixed by the shape, of integers in their type. With `keepdims` the reduced axes
    stay with size 1.

    With `parts`, which divides the first reduced axis, each of that many equal
    runs of it is reduced apart, and the axis stays with that size: rows 0 to 15
    and rows 16 to 31, say. It is the first step of a long reduction that
    several threads share.

    ```mlir
    %y = mpc.}] # mnemonic # [{ %x {axes = array<i64: 0>, keepdims = false}
        : (tensor<32x10xf32>) -> tensor<10xf32>
    ```

    ```mlir
    %z = mpc.}] # mnemonic # [{ %x {axes = array<i64: 0>, keepdims = true, parts = 2 : i64}
        : (tensor<32x10xf32>) -> tensor<2x10xf32>
    ```
  }];
  let arguments = (ins type:$input, DenseI64ArrayAttr:$axes,
                       DefaultValuedAttr<BoolAttr, "false">:$keepdims,
                       OptionalAttr<I64Attr>:$parts);
  let results = (outs type:$output);
  // Builds a reduction that is not split into `parts`.
  let builders = [OpBuilder<(ins "::mlir::Type":$output, "::mlir::Value":$input,
                                 "::llvm::ArrayRef<int64_t>":$axes,
                                 "bool":$keepdims), [{
    build($_builder, $_state, output, input, axes, keepdims, nullptr);
  }]>];
}

def MPC_ReduceMeanOp : MPC_ReduceOp<"reduce_mean", "mean", MPC_FloatTensor>,
    MPC_SumPolicy<["ReduceMean"]>, MPC_Linear;
// Reductions of floats or integers. Constant integers fold.
class MPC_NumberReduceOp<string mnemonic, string what> : MPC_ReduceOp<mnemonic, what> {
  let hasFolder = 1;
}
def MPC_ReduceSumOp : MPC_NumberReduceOp<"reduce_sum", "sum">, MPC_SumPolicy<["ReduceSum"]>,
    MPC_Linear;
def MPC_ReduceMaxOp : MPC_NumberReduceOp<"reduce_max", "maximum">,
    MPC_ExactPolicy<["ReduceMax"], fp32Results = [0]>, MPC_Linear {
  let extraClassDeclaration = [{
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred,
                                        ::mlir::TypeRange actual) {
      return ::mpc::areCompatibleTypes(inferred, actual);
    }
    static bool choosesElement() { return true; }
  }];
}
def MPC_ReduceProdOp : MPC_NumberReduceOp<"reduce_prod", "product">,
    MPC_Policy<["ReduceProd"], "Deny", "Infer",
               "range grows with the number of factors", fp32Results = [0], unbounded = true>;

def MPC_CumSumOp : MPC_TensorOp<"cumsum", "Cumulative">, MPC_SumPolicy<["CumSum"]>, MPC_Linear {
  let summary = "cumulative sums along an axis";
  let description = [{
    ONNX CumSum: y[i] is the sum of x[0] to x[i]. `exclusive` leaves out x[i],
    and `reverse` sums from the end. Floats are summed in that order in f64 and
    rounded once; integers are summed in their type. The gradient is the sum
    from the other end.

    ```mlir
    %y = mpc.cumsum %x {axis = 1 : i64, reverse = true}
        : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins MPC_NumberTensor:$input, I64Attr:$axis,
                       DefaultValuedAttr<BoolAttr, "false">:$exclusive,
                       DefaultValuedAttr<BoolAttr, "false">:$reverse);
  let results = (outs MPC_NumberTensor:$output);
}

// Unlike a ReduceSum in a model, the op is the gradient of a broadcast and sums
// in fp32, so the op is no sign of numerical risk: users may be low, and the
// range counts as bounded.
def MPC_SumToSizeOp : MPC_ShapedOp<"sum_to_size", "Reduction",
    [DeclareOpInterfaceMethods<ReductionOpInterface,
         ["getReducedAxes", "getReductionParts", "reduceLike"]>]>,
    MPC_Policy<[], "Infer", "Infer", "gradient of a broadcast, summed in fp32">, MPC_Linear {
  let summary = "the gradient of broadcasting: sums to a smaller shape";
  let description = [{
    Sums over the axes along which the result's shape would broadcast to the
    input's. Only differentiation creates the op. Unlike a ReduceSum of the
    user's it carries no numerical risk, so it has its own precision policy.

    ```mlir
    %db = mpc.sum_to_size %dy : (tensor<32x10xf32>) -> tensor<10xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input);
  let results = (outs MPC_FloatTensor:$output);
  let hasFolder = 1;
}

class MPC_SoftmaxLikeOp<string mnemonic, string what> : MPC_TensorOp<mnemonic, "Composite"> {
  let summary = what # " along an axis";
  let description = [{
    Opset 13 semantics: along `axis` alone (older models are rewritten at
    import). The maximum is subtracted first.

    ```mlir
    %y = mpc.}] # mnemonic # [{ %x {axis = 1 : i64} : (tensor<32x10xf32>) -> tensor<32x10xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input, I64Attr:$axis);
  let results = (outs MPC_FloatTensor:$output);
}

def MPC_SoftmaxOp : MPC_SoftmaxLikeOp<"softmax", "softmax">,
    MPC_Policy<["Softmax"], "Deny", "Infer", "exponentials and a sum">;
def MPC_LogSoftmaxOp : MPC_SoftmaxLikeOp<"log_softmax", "logarithm of softmax">,
    MPC_Policy<["LogSoftmax"], "Deny", "Infer", "exponentials, a sum and a logarithm">;

#endif // MPC_COMPILER_DIALECT_MPC_MPCREDUCTIONOPS_TD
