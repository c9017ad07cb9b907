// Forward ops of the mpc dialect, state and regions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCOPS_TD

include "compiler/Dialect/MPC/MPCEnums.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

//===----------------------------------------------------------------------===//
// State and constants
//===----------------------------------------------------------------------===//

def MPC_VariableOp : MPC_Op<"variable", [Symbol]> {
  let summary = "a state variable of the module";
  let description = [{
    Declares one piece of state: its type at the boundary (ONNX's layout, master
    precision), what it is for, and its initial value. `role` is one of
    `parameter` (trained), `frozen` (a parameter that is not), `statistic`
    (BatchNormalization running values), `optimizer_state`, `average` (of a
    parameter over the steps), `accumulator`, `loss_scale`, `counter`, and `derived` (recomputed by `@derive` from other
    state, never saved). Without `init` the variable starts at `fill`, zero by
    default.

    ```mlir
    mpc.variable @fc1.weight : tensor<10x64xf32> role "parameter"
        init dense<0.0> : tensor<10x64xf32>
    mpc.variable @mpc.step : tensor<i64> role "counter"
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, StrAttr:$role,
                       OptionalAttr<ElementsAttr>:$init,
                       OptionalAttr<F64Attr>:$fill,
                       OptionalAttr<StrAttr>:$sym_visibility);
  let assemblyFormat = [{
    $sym_name `:` $type `role` $role (`init` $init^)? (`fill` $fill^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def MPC_ConstantOp : MPC_Op<"constant", [Pure, ConstantLike, AllTypesMatch<["value", "output"]>,
    PrecisionOpInterface, DeclareOpInterfaceMethods<RegionOpInterface>]> {
  let summary = "a constant tensor";
  let description = [{
    Known when the model is compiled: passes fold it, the artifact holds it.

    ```mlir
    %0 = mpc.constant dense<1.0> : tensor<f32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs MPC_Tensor:$output);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mpc::RegionRole $cppClass::getRegionRole() {
      return ::mpc::RegionRole::Constant;
    }
  }];
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

class MPC_DescribedUnaryOp<string mnemonic, string formula, Type type = MPC_FloatTensor>
    : MPC_UnaryOp<mnemonic, [], type> {
  let summary = "elementwise " # formula;
  let description = "Computes " # formula # [{ for every element.

    ```mlir
    %y = mpc.}] # mnemonic # [{ %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

// An op of floats, or of integers, where it wraps around and folds.
class MPC_NumberUnaryOp<string mnemonic, string formula>
    : MPC_DescribedUnaryOp<mnemonic, formula, MPC_NumberTensor> {
  let hasFolder = 1;
}

def MPC_NegOp : MPC_NumberUnaryOp<"neg", "-x">;
def MPC_AbsOp : MPC_NumberUnaryOp<"abs", "|x|">;
def MPC_SignOp : MPC_NumberUnaryOp<"sign", "sign(x), 0 at 0">;
def MPC_ReluOp : MPC_DescribedUnaryOp<"relu", "max(x, 0), NaN stays NaN">;
def MPC_SigmoidOp : MPC_DescribedUnaryOp<"sigmoid", "1 / (1 + exp(-x))">;
def MPC_TanhOp : MPC_DescribedUnaryOp<"tanh", "tanh(x)">;
def MPC_ExpOp : MPC_DescribedUnaryOp<"exp", "exp(x)">;
def MPC_LogOp : MPC_DescribedUnaryOp<"log", "log(x)">;
def MPC_SqrtOp : MPC_DescribedUnaryOp<"sqrt", "sqrt(x)">;
def MPC_ReciprocalOp : MPC_DescribedUnaryOp<"reciprocal", "1 / x">;

def MPC_ClipOp : MPC_UnaryOp<"clip"> {
  let summary = "elementwise min(max(x, min), max)";
  let description = [{
    An absent bound does not bound.

    ```mlir
    %y = mpc.clip %x {min = 0.0 : f64, max = 6.0 : f64}
        : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input, OptionalAttr<F64Attr>:$min,
                       OptionalAttr<F64Attr>:$max);
}

class MPC_DescribedBinaryOp<string mnemonic, string formula, list<Trait> traits = []>
    : MPC_BinaryOp<mnemonic, traits, MPC_NumberTensor> {
  let hasFolder = 1;
  let summary = "elementwise " # formula;
  let description = "Computes " # formula # [{, broadcasting by NumPy's rules.

    ```mlir
    %c = mpc.}] # mnemonic # [{ %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def MPC_AddOp : MPC_DescribedBinaryOp<"add", "a + b", [Commutative]>;
def MPC_SubOp : MPC_DescribedBinaryOp<"sub", "a - b">;
def MPC_MulOp : MPC_DescribedBinaryOp<"mul", "a * b", [Commutative]>;
def MPC_DivOp : MPC_DescribedBinaryOp<"div",
    "a / b (of integers: truncated, and 0 where b is 0)">;
def MPC_PowOp : MPC_DescribedBinaryOp<"pow",
    "a to the power of b (of integers below 0: truncated, and 0 where a is 0)">;
def MPC_MaximumOp : MPC_DescribedBinaryOp<"maximum", "max(a, b)", [Commutative]>;
def MPC_MinimumOp : MPC_DescribedBinaryOp<"minimum", "min(a, b)", [Commutative]>;

def MPC_ModOp : MPC_BinaryOp<"mod", [], MPC_NumberTensor> {
  let summary = "elementwise remainder of a / b";
  let description = [{
    Has the sign of b, as in Python, or with `fmod` that of a, as in C; floats
    want `fmod`. 0 where b is the integer 0, NaN where it is the float.

    ```mlir
    %c = mpc.mod %a, %b : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
    ```
  }];
  let arguments = (ins MPC_NumberTensor:$lhs, MPC_NumberTensor:$rhs,
                       DefaultValuedAttr<BoolAttr, "false">:$fmod);
  let hasFolder = 1;
  let hasVerifier = 1;
}

// Of booleans, and bit by bit of integers.
class MPC_BitsOp<string mnemonic, string formula, Type type = MPC_BitsTensor,
                 list<Trait> traits = []> : MPC_BinaryOp<mnemonic, traits, type> {
  let summary = "elementwise " # formula;
  let description = "Computes " # formula # [{, broadcasting by NumPy's rules.

    ```mlir
    %c = mpc.}] # mnemonic # [{ %a, %b : (tensor<4x8xui8>, tensor<8xui8>) -> tensor<4x8xui8>
    ```
  }];
  let hasFolder = 1;
}

def MPC_AndOp : MPC_BitsOp<"and", "a and b, bit by bit", MPC_BitsTensor, [Commutative]>;
def MPC_OrOp : MPC_BitsOp<"or", "a or b, bit by bit", MPC_BitsTensor, [Commutative]>;
def MPC_XorOp : MPC_BitsOp<"xor", "exclusive or of a and b, bit by bit",
    MPC_BitsTensor, [Commutative]>;
def MPC_ShiftLeftOp : MPC_BitsOp<"shift_left",
    "a * 2^b (0 where b is negative, or not below the number of bits)",
    MPC_IntegerTensor>;
def MPC_ShiftRightOp : MPC_BitsOp<"shift_right",
    "a / 2^b, rounded down (0 or -1 where b is negative, or not below the number of bits)",
    MPC_IntegerTensor>;

def MPC_NotOp : MPC_UnaryOp<"not", [], MPC_BitsTensor> {
  let summary = "elementwise complement of all bits";
  let description = [{
    Logical not of booleans.

    ```mlir
    %y = mpc.not %x : (tensor<4x8xi1>) -> tensor<4x8xi1>
    ```
  }];
  let hasFolder = 1;
}

def MPC_BCEWithLogitsOp : MPC_BinaryOp<"bce_with_logits"> {
  let summary = "elementwise binary cross entropy of logits x and targets t";
  let description = [{
    Computes max(x, 0) - x * t + log1p(exp(-|x|)), which neither overflows nor
    loses digits, without a reduction. `lhs` is x, `rhs` is t.

    ```mlir
    %l = mpc.bce_with_logits %x, %t
        : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    ```
  }];
}

def MPC_BCEOp : MPC_BinaryOp<"bce"> {
  let summary = "elementwise binary cross entropy of probabilities p and targets t";
  let description = [{
    Computes -(t * log(p) + (1 - t) * log(1 - p)), either logarithm at least
    -100 as in PyTorch, without a reduction. NaN where p is not in [0, 1]. `lhs`
    is p, `rhs` is t.

    ```mlir
    %l = mpc.bce %p, %t
        : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    ```
  }];
}

// Two operands broadcast together; false where either is NaN.
class MPC_CompareOp<string mnemonic, string formula, Type type, list<Trait> traits = []>
    : MPC_InferredOp<mnemonic, "inferCompare(location, adaptor.getOperands(), results)",
                     traits> {
  let summary = "elementwise " # formula # ", false where either is NaN";
  let description = "Computes " # formula # [{, broadcasting by NumPy's rules.

    ```mlir
    %c = mpc.}] # mnemonic # [{ %a, %b : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xi1>
    ```
  }];
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs MPC_BoolTensor:$output);
  let hasFolder = 1;
}

def MPC_EqualOp : MPC_CompareOp<"equal", "a == b", MPC_Tensor, [Commutative]>;
def MPC_LessOp : MPC_CompareOp<"less", "a < b", MPC_NumberTensor>;
def MPC_LessOrEqualOp : MPC_CompareOp<"less_or_equal", "a <= b", MPC_NumberTensor>;

// One float operand, true where it is what the op is named after.
class MPC_ClassifyOp<string mnemonic, string what, dag parameters = (ins)>
    : MPC_InferredOp<mnemonic, "inferCompare(location, adaptor.getOperands(), results)",
                     []> {
  let summary = "true where the element is " # what;
  let description = "Tells which elements are " # what # [{.

    ```mlir
    %y = mpc.}] # mnemonic # [{ %x : (tensor<4x8xf32>) -> tensor<4x8xi1>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$input), parameters);
  let results = (outs MPC_BoolTensor:$output);
}

def MPC_IsNaNOp : MPC_ClassifyOp<"is_nan", "NaN">;
def MPC_IsInfOp : MPC_ClassifyOp<"is_inf",
    "infinite, of a sign that 'positive' and 'negative' allow",
    (ins DefaultValuedAttr<BoolAttr, "true">:$negative,
         DefaultValuedAttr<BoolAttr, "true">:$positive)>;

def MPC_CastOp : MPC_ShapedOp<"cast", "Elementwise"> {
  let summary = "ONNX Cast: a conversion the model asks for";
  let description = [{
    Part of the model's meaning, unlike `amp.cast`: never removed where it loses
    values. To bool tests for non-zero. Integers become narrower ones by their
    low bits. Floats become integers by truncation to i64 (ui64 where they are
    2^63 and more, for a ui64) and from there as integers do; NaN and what 64
    bits cannot hold count as -2^63, which has no low bits.

    ```mlir
    %y = mpc.cast %x : (tensor<8xi64>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
}

def MPC_DropoutOp : MPC_TensorOp<"dropout", "Elementwise",
    [DeclareOpInterfaceMethods<IndexedOpInterface, ["getIndexedAxes", "getIndexedShape"]>]> {
  let summary = "training-mode dropout with a counter-based mask";
  let description = [{
    Element i becomes x[i] / (1 - ratio) with probability 1 - ratio and 0
    otherwise. The choice is a function of (`seed`, `micro_step`, `id`, i) alone:
    Philox-4x32-10 with the key made of `seed`, the counter of (i / 4, `id`,
    `micro_step`), lane i % 4, and "keep" where the lane's 24 upper bits, as a
    fraction, are not below `ratio`. No mask is stored: the gradient is the same
    op with the same `id` on the incoming gradient. `id` is fixed at import, and
    no pass changes it. An op on a box of a tensor says where that is, so that its
    elements fare as they do in the whole: `whole` is the shape of the tensor,
    and its element 4 * `group` is the first of the box.

    ```mlir
    %y = mpc.dropout %x, %seed, %micro_step {ratio = 0.5 : f64, id = 3 : i64}
        : (tensor<32x100xf32>, tensor<i64>, tensor<i64>) -> tensor<32x100xf32>
    ```

    Rows 8 to 15 of such a tensor start with element 800, where %group is 200:

    ```mlir
    %part = mpc.dropout %rows, %seed, %micro_step, %group {ratio = 0.5 : f64, id = 3 : i64, whole = array<i64: 32, 100>}
        : (tensor<8x100xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8x100xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input, MPC_IntTensor:$seed,
                       MPC_IntTensor:$micro_step, Optional<MPC_IntTensor>:$group,
                       F64Attr:$ratio, I64Attr:$id,
                       OptionalAttr<DenseI64ArrayAttr>:$whole);
  let results = (outs MPC_FloatTensor:$output);
}

def MPC_RandomUniformOp : MPC_ShapedOp<"random_uniform", "Elementwise",
    [DeclareOpInterfaceMethods<IndexedOpInterface, ["getIndexedAxes"]>]> {
  let summary = "random numbers in [0, 1), by a counter";
  let description = [{
    Element i is a function of (`seed`, `micro_step`, `id`, i) alone, by the
    generator of `mpc.dropout`: Philox-4x32-10 with the key made of `seed` and
    the counter of (i / 4, `id`, `micro_step`). The upper bits of lane i % 4 are
    a fraction, as many as the element type has digits: 24 of f32. An f64 has
    the upper 53 bits of two lanes, the lower half first: those of 2 (i % 2) for
    the counter of i / 2. So no number is rounded, and none is 1. Ops of a
    module have `id`s of their own, dropouts among them.

    ```mlir
    %u = mpc.random_uniform %seed, %micro_step {id = 3 : i64}
        : (tensor<i64>, tensor<i64>) -> tensor<32x100xf32>
    ```
  }];
  let arguments = (ins MPC_IntTensor:$seed, MPC_IntTensor:$micro_step, I64Attr:$id);
  let results = (outs MPC_FloatTensor:$output);
}

def MPC_SelectOp : MPC_TensorOp<"select", "Elementwise"> {
  let summary = "elementwise on_true where condition, else on_false";
  let description = [{
    Shapes broadcast by NumPy's rules: the one condition here chooses all of
    %new, or all of %old.

    ```mlir
    %y = mpc.select %ok, %new, %old
        : (tensor<i1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins MPC_BoolTensor:$condition, MPC_Tensor:$on_true,
                       MPC_Tensor:$on_false);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
}

def MPC_OneHotOp : MPC_TensorOp<"one_hot", "Elementwise",
    [DeclareOpInterfaceMethods<IndexedOpInterface, ["getIndexedAxes", "readsMemory"]>]> {
  let summary = "1 where the index along an axis equals the label, 0 elsewhere";
  let description = [{
    Inserts an axis of `depth` at `axis`. A label outside [0, depth), such as an
    ignored one, gives zeros.

    ```mlir
    %y = mpc.one_hot %labels {axis = 1 : i64, depth = 10 : i64}
        : (tensor<32xi64>) -> tensor<32x10xf32>
    ```
  }];
  let arguments = (ins MPC_IntTensor:$labels, I64Attr:$axis, I64Attr:$depth);
  let results = (outs MPC_FloatTensor:$output);
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

def MPC_ReshapeOp : MPC_ShapedOp<"reshape", "View"> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    Reshape, Flatten, Squeeze and Unsqueeze of ONNX with their shapes resolved.

    ```mlir
    %y = mpc.reshape %x : (tensor<32x16x2x2xf32>) -> tensor<32x64xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def MPC_TransposeOp : MPC_TensorOp<"transpose", "Movement"> {
  let summary = "permutes the axes";
  let description = [{
    Axis i of the result is axis `perm[i]` of the input.

    ```mlir
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 3, 1>}
        : (tensor<32x16x8x8xf32>) -> tensor<32x8x8x16xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input, DenseI64ArrayAttr:$perm);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def MPC_ExpandOp : MPC_ShapedOp<"expand", "Elementwise"> {
  let summary = "broadcasts to a larger shape by NumPy's rules";
  let description = [{
    Axes of size 1, and those that are missing in front, are repeated.

    ```mlir
    %y = mpc.expand %x : (tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
}

def MPC_ConcatOp : MPC_TensorOp<"concat", "Movement"> {
  let summary = "joins tensors along an axis";
  let description = [{
    In the order of the operands, whose other axes have equal sizes.

    ```mlir
    %y = mpc.concat %a, %b {axis = 1 : i64}
        : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<4x5xf32>
    ```
  }];
  let arguments = (ins Variadic<MPC_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs MPC_Tensor:$output);
}

def MPC_SliceOp : MPC_TensorOp<"slice", "Movement"> {
  let summary = "a box of a tensor, or every so many elements of it";
  let description = [{
    Along axis d the `sizes[d]` elements offsets[d], offsets[d] + strides[d], ...
    Strides are 1 where there are none; negative ones run backwards.

    ```mlir
    %y = mpc.slice %x {offsets = array<i64: 0, 2>, sizes = array<i64: 4, 3>}
        : (tensor<4x5xf32>) -> tensor<4x3xf32>
    ```

    Every second row, with its elements in reverse:

    ```mlir
    %z = mpc.slice %x {offsets = array<i64: 0, 4>, sizes = array<i64: 2, 5>,
                       strides = array<i64: 2, -1>}
        : (tensor<4x5xf32>) -> tensor<2x5xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input, DenseI64ArrayAttr:$offsets,
                       DenseI64ArrayAttr:$sizes,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$strides);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
}

def MPC_PadOp : MPC_TensorOp<"pad", "Movement"> {
  let summary = "a tensor within a larger one of one value";
  let description = [{
    The input's first element lies at `offsets` of a result of `shape`, its next
    one along axis d `strides[d]` further; all others are `value`. Strides are 1
    where there are none. The gradient of a slice is a pad with zeros, that of a
    pad a slice.

    ```mlir
    %y = mpc.pad %x {offsets = array<i64: 0, 2>, shape = array<i64: 4, 8>}
        : (tensor<4x3xf32>) -> tensor<4x8xf32>
    ```

    Rows with a row of zeros between them:

    ```mlir
    %z = mpc.pad %x {offsets = array<i64: 0, 0>, shape = array<i64: 7, 3>,
                     strides = array<i64: 2, 1>}
        : (tensor<4x3xf32>) -> tensor<7x3xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input, DenseI64ArrayAttr:$offsets,
                       DenseI64ArrayAttr:$shape,
                       DefaultValuedAttr<F64Attr, "0.0">:$value,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$strides);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

class MPC_ReduceOp<string mnemonic, string what, Type type = MPC_NumberTensor>
    : MPC_TensorOp<mnemonic, "Reduction"> {
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
  // Of all of the axes.
  let builders = [OpBuilder<(ins "::mlir::Type":$output, "::mlir::Value":$input,
                                 "::llvm::ArrayRef<int64_t>":$axes,
                                 "bool":$keepdims), [{
    build($_builder, $_state, output, input, axes, keepdims, nullptr);
  }]>];
}

def MPC_ReduceMeanOp : MPC_ReduceOp<"reduce_mean", "mean", MPC_FloatTensor>;
// Reductions that integers have too, and fold.
class MPC_NumberReduceOp<string mnemonic, string what> : MPC_ReduceOp<mnemonic, what> {
  let hasFolder = 1;
}
def MPC_ReduceSumOp : MPC_NumberReduceOp<"reduce_sum", "sum">;
def MPC_ReduceMaxOp : MPC_NumberReduceOp<"reduce_max", "maximum">;
def MPC_ReduceProdOp : MPC_NumberReduceOp<"reduce_prod", "product">;

def MPC_CumSumOp : MPC_TensorOp<"cumsum", "Cumulative"> {
  let summary = "sums of the elements up to each one along an axis";
  let description = [{
    ONNX CumSum: y[i] is the sum of x[0] to x[i], without x[i] itself where
    `exclusive`, and from the end where `reverse`. Floats are added up in f64 in
    that order and rounded once, integers in their type. The gradient is the sum
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

def MPC_SumToSizeOp : MPC_ShapedOp<"sum_to_size", "Reduction"> {
  let summary = "the gradient of broadcasting: sums to a smaller shape";
  let description = [{
    Sums over the axes along which the result's shape would be broadcast to the
    input's. Emitted by differentiation; unlike a ReduceSum of the user's it
    carries no numerical risk, so the precision policy treats it apart.

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

def MPC_SoftmaxOp : MPC_SoftmaxLikeOp<"softmax", "softmax">;
def MPC_LogSoftmaxOp : MPC_SoftmaxLikeOp<"log_softmax", "logarithm of softmax">;

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

def MPC_MatMulOp : MPC_TensorOp<"matmul", "Contraction"> {
  let summary = "matrix product, batched over leading axes";
  let description = [{
    NumPy's matmul on operands of rank two or more, with the last two axes of an
    operand exchanged first where `transA` / `transB` say so, times `alpha`. The
    products are summed in f32 (f64 in f64) whatever the operand types are.

    ```mlir
    %y = mpc.matmul %x, %w {transB = true}
        : (tensor<32x64xbf16>, tensor<10x64xbf16>) -> tensor<32x10xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$lhs, MPC_FloatTensor:$rhs,
                       DefaultValuedAttr<BoolAttr, "false">:$transA,
                       DefaultValuedAttr<BoolAttr, "false">:$transB,
                       DefaultValuedAttr<F64Attr, "1.0">:$alpha);
  let results = (outs MPC_FloatTensor:$output);
}

def MPC_GemmOp : MPC_TensorOp<"gemm", "Contraction"> {
  let summary = "alpha * op(A) op(B) + beta * C on matrices";
  let description = [{
    ONNX Gemm. C, where present, broadcasts to the result.

    ```mlir
    %y = mpc.gemm %x, %w, %b {transB = true}
        : (tensor<32x64xf32>, tensor<10x64xf32>, tensor<10xf32>) -> tensor<32x10xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$a, MPC_FloatTensor:$b,
                       Optional<MPC_FloatTensor>:$c,
                       DefaultValuedAttr<F64Attr, "1.0">:$alpha,
                       DefaultValuedAttr<F64Attr, "1.0">:$beta,
                       DefaultValuedAttr<BoolAttr, "false">:$transA,
                       DefaultValuedAttr<BoolAttr, "false">:$transB);
  let results = (outs MPC_FloatTensor:$output);
}

// Attributes of the convolution family: where activations keep their channels,
// and weights theirs. Importers leave both at ONNX's order.
defvar MPC_ConvAttrs = (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                            DenseI64ArrayAttr:$dilations,
                            DefaultValuedAttr<I64Attr, "1">:$group,
                            DefaultValuedAttr<MPC_LayoutAttr, "::mpc::Layout::NCHW">:$layout,
                            DefaultValuedAttr<MPC_FilterLayoutAttr, "::mpc::FilterLayout::OIHW">:$filter_layout);

def MPC_ConvOp : MPC_TensorOp<"conv", "Contraction"> {
  let summary = "convolution over one to three spatial axes";
  let description = [{
    ONNX Conv with its paddings resolved: `pads` holds the begin of every spatial
    axis, then the end.

    ```mlir
    %y = mpc.conv %x, %w, %b {strides = array<i64: 1, 1>,
        pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
        : (tensor<32x1x8x8xf32>, tensor<16x1x3x3xf32>, tensor<16xf32>) -> tensor<32x16x8x8xf32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$input, MPC_FloatTensor:$weight,
                            Optional<MPC_FloatTensor>:$bias), MPC_ConvAttrs);
  let results = (outs MPC_FloatTensor:$output);
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

defvar MPC_PoolAttrs = (ins DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                            DenseI64ArrayAttr:$pads,
                            DefaultValuedAttr<BoolAttr, "false">:$ceil_mode,
                            DefaultValuedAttr<MPC_LayoutAttr, "::mpc::Layout::NCHW">:$layout);

def MPC_MaxPoolOp : MPC_TensorOp<"max_pool", "Window"> {
  let summary = "maximum of sliding windows";
  let description = [{
    `indices` holds, per output element, the row-major position of the maximum
    (the first one, NaN counts as maximum) within the spatial plane of the input:
    what the gradient needs, independent of layout. It is not ONNX's Indices.

    ```mlir
    %y, %i = mpc.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
        : (tensor<32x16x8x8xf32>) -> (tensor<32x16x4x4xf32>, tensor<32x16x4x4xi32>)
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$input), MPC_PoolAttrs,
                       (ins DenseI64ArrayAttr:$dilations));
  let results = (outs MPC_FloatTensor:$output, MPC_IntTensor:$indices);
}

def MPC_AveragePoolOp : MPC_TensorOp<"average_pool", "Window"> {
  let summary = "mean of sliding windows";
  let description = [{
    `dilations` are 1 where none are given.

    ```mlir
    %y = mpc.average_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>}
        : (tensor<32x16x8x8xf32>) -> tensor<32x16x4x4xf32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$input), MPC_PoolAttrs,
                       (ins DefaultValuedAttr<BoolAttr, "false">:$count_include_pad,
                            DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$dilations));
  let results = (outs MPC_FloatTensor:$output);
}

def MPC_GlobalAveragePoolOp : MPC_TensorOp<"global_average_pool", "Composite"> {
  let summary = "mean over all spatial axes, which stay with size 1";
  let description = [{
    `layout` says which axes are spatial: in NCHW those from 2 on.

    ```mlir
    %y = mpc.global_average_pool %x : (tensor<32x64x4x4xf32>) -> tensor<32x64x1x1xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input,
                       DefaultValuedAttr<MPC_LayoutAttr, "::mpc::Layout::NCHW">:$layout);
  let results = (outs MPC_FloatTensor:$output);
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

class MPC_LabelLossOp<string mnemonic> : MPC_TensorOp<mnemonic, "Composite"> {
  dag labelArguments = (ins MPC_IntTensor:$labels,
                            Optional<MPC_FloatTensor>:$weights,
                            DefaultValuedAttr<StrAttr, "\"mean\"">:$reduction,
                            OptionalAttr<I64Attr>:$ignore_index,
                            UnitAttr:$zero_if_empty);
}

def MPC_SoftmaxCrossEntropyLossOp : MPC_LabelLossOp<"softmax_cross_entropy_loss"> {
  let summary = "cross entropy of softmax over axis 1, against class labels";
  let description = [{
    ONNX SoftmaxCrossEntropyLoss: scores (N, C, ...), labels (N, ...), class
    weights (C) optional. `reduction` is `mean`, `sum` or `none`; the mean
    divides by the sum of the weights of the labels that count. Labels equal to
    `ignore_index` count nowhere. A mean over no label at all is NaN, as ONNX has
    it, or 0 with `zero_if_empty`.

    With a `label_smoothing` e, PyTorch's, the probability of each label is 1 - e,
    and e is shared by all C classes: a label's loss is (1 - e) * w[label] *
    -log_prob[label] + e / C * sum over c of w[c] * -log_prob[c].

    ```mlir
    %loss, %log_prob = mpc.softmax_cross_entropy_loss %scores, %labels {reduction = "mean"}
        : (tensor<32x10xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<32x10xf32>)
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$scores), labelArguments,
                       (ins DefaultValuedAttr<F64Attr, "0.0">:$label_smoothing));
  let results = (outs MPC_FloatTensor:$loss, MPC_FloatTensor:$log_prob);
}

def MPC_NLLLossOp : MPC_LabelLossOp<"nll_loss"> {
  let summary = "ONNX NegativeLogLikelihoodLoss: log-probabilities against class labels";
  let description = [{
    As `mpc.softmax_cross_entropy_loss`, on log-probabilities.

    ```mlir
    %loss = mpc.nll_loss %log_prob, %labels {reduction = "mean"}
        : (tensor<32x10xf32>, tensor<32xi64>) -> tensor<f32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$log_prob), labelArguments);
  let results = (outs MPC_FloatTensor:$loss);
}

def MPC_AccuracyOp : MPC_TensorOp<"accuracy", "Composite"> {
  let summary = "1 where the greatest score over axis 1 is the label's, else 0";
  let description = [{
    Scores (N, C, ...), labels (N, ...): a 1 or a 0 for every label, whose mean
    over the labels that count is the accuracy. Of equal scores the first is the
    greatest. A NaN among the scores of a label, or a label that is no class,
    gives 0. The position of the greatest score is a float within the kernel,
    so there are at most 2^24 classes.

    ```mlir
    %correct = mpc.accuracy %scores, %labels
        : (tensor<32x10xf32>, tensor<32xi64>) -> tensor<32xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$scores, MPC_IntTensor:$labels);
  let results = (outs MPC_FloatTensor:$correct);
}

//===----------------------------------------------------------------------===//
// Regions: kernels-to-be
//===----------------------------------------------------------------------===//

def MPC_KeptOp : MPC_Op<"kept", [Pure, SameOperandsAndResultType]> {
  let summary = "a value that kernels load from memory";
  let description = [{
    What its kernel has stored and others load. An op that reads it shares no
    kernel with the one that computes it; a copy of an op that reads it is not a
    common subexpression. It is gone once kernels are formed, and never is code.

    ```mlir
    %k = mpc.kept %h : tensor<32x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def MPC_RegionOp : MPC_Op<"region", [Pure, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"::mpc::YieldOp">]> {
  let summary = "ops that become one kernel";
  let description = [{
    What one kernel computes, formed by the Fusion stage: block arguments are the
    tensors it loads, yielded values those it stores; everything between lives in
    registers, in f32. `kernel` is the name that the kernel gets, `provider` who does
    the contraction of one. `kind` names the loop nest:

    | kind | iteration space | may hold |
    |---|---|---|
    | `pointwise` | the results' shape | elementwise ops |
    | `row_reduce` | the hero's input shape, reduced over trailing axes | elementwise ops before and after, several reductions over the same axes |
    | `column_reduce` | the heroes' input shape, reduced over leading axes | elementwise ops before the reductions |
    | `contraction` | the contraction's result | one contraction, elementwise ops after it |
    | `window` | the result | one pooling op |
    | `movement` | the result | one transpose, concat, slice or pad |
    | `scatter` | the result, along the scattered axis | elementwise ops of the updates' shape, then a scatter |
    | `cumulative` | lines along the axis | one cumulative sum |

    ```mlir
    %y = mpc.region pointwise (%x, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
    ^bb0(%0: tensor<4x8xf32>, %1: tensor<8xf32>):
      %2 = mpc.add %0, %1 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
      %3 = mpc.relu %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
      mpc.yield %3 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins MPC_KernelKindAttr:$kind,
                       OptionalAttr<StrAttr>:$kernel,
                       OptionalAttr<MPC_ContractionProviderAttr>:$provider,
                       Variadic<AnyRankedTensor>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    custom<Word>($kind) `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body
  }];
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$outputs, "KernelKind":$kind,
                                 "::mlir::ValueRange":$inputs), [{
    build($_builder, $_state, outputs, kind, ::mlir::StringAttr(),
          ContractionProviderAttr(), inputs);
  }]>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The input that a value of the body stands for; null for one that the
    /// body computes.
    ::mlir::Value getTiedInput(::mlir::Value value);
    /// The matrix product or convolution of a region of kind contraction.
    ::mlir::Operation *getContraction();
  }];
}

def MPC_YieldOp : MPC_Op<"yield", [Pure, Terminator, ReturnLike,
    ParentOneOf<["RegionOp", "ScanOp", "IfOp"]>]> {
  let summary = "what a region, an iteration or a branch results in";
  let description = [{
    Ends the body of an `mpc.region`, `mpc.scan` or `mpc.if`, whose results have
    the types of the values.

    ```mlir
    mpc.yield %y : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), [{ (void)$_state; }]>];
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCOPS_TD
