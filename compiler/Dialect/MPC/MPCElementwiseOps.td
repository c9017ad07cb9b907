// Elementwise ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCELEMENTWISEOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCELEMENTWISEOPS_TD

include "compiler/Dialect/MPC/MPCEnums.td"

class MPC_DescribedUnaryOp<string mnemonic, string formula, Type type = MPC_FloatTensor>
    : MPC_UnaryOp<mnemonic, [], type> {
  let summary = "elementwise " # formula;
  let description = "Computes " # formula # [{ for every element.

    ```mlir
    %y = mpc.}] # mnemonic # [{ %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

// An op on floats or integers that folds on constants. Integer results wrap
// around.
class MPC_NumberUnaryOp<string mnemonic, string formula>
    : MPC_DescribedUnaryOp<mnemonic, formula, MPC_NumberTensor> {
  let hasFolder = 1;
}

// A float op whose result is equal on all machines, so constants fold
// (FloatFormulas.h).
class MPC_ExactUnaryOp<string mnemonic, string formula>
    : MPC_DescribedUnaryOp<mnemonic, formula> {
  let hasFolder = 1;
}

def MPC_NegOp : MPC_NumberUnaryOp<"neg", "-x">, MPC_ExactPolicy<["Neg"]>, MPC_Linear;
def MPC_AbsOp : MPC_NumberUnaryOp<"abs", "|x|">, MPC_ExactPolicy<["Abs"]>, MPC_Linear;
def MPC_SignOp : MPC_NumberUnaryOp<"sign", "sign(x), 0 at 0">, MPC_ExactPolicy<["Sign"]>;
def MPC_ReluOp : MPC_ExactUnaryOp<"relu", "max(x, 0), NaN stays NaN">,
    MPC_ExactPolicy<["Relu"]>, MPC_Linear;
def MPC_SigmoidOp : MPC_DescribedUnaryOp<"sigmoid", "1 / (1 + exp(-x))">,
    MPC_Policy<["Sigmoid"], "Infer", "Infer", "bounded result of one rounding">;
def MPC_TanhOp : MPC_DescribedUnaryOp<"tanh", "tanh(x)">,
    MPC_Policy<["Tanh"], "Infer", "Infer", "bounded result of one rounding">;
// In fp16, an exponential soon overflows. A logarithm or power loses accuracy
// if its argument was rounded to fp16.
def MPC_ExpOp : MPC_DescribedUnaryOp<"exp", "exp(x)">,
    MPC_Policy<["Exp"], "Deny", "Infer", "overflows fp16 above 11.09">;
def MPC_LogOp : MPC_DescribedUnaryOp<"log", "log(x)">,
    MPC_Policy<["Log"], "Deny", "Infer", "relative error of the argument becomes absolute">;
def MPC_SqrtOp : MPC_ExactUnaryOp<"sqrt", "sqrt(x)">, MPC_RoundingPolicy<["Sqrt"]>;
def MPC_ReciprocalOp : MPC_ExactUnaryOp<"reciprocal", "1 / x">,
    MPC_Policy<["Reciprocal"], "Infer", "Infer", "overflows only below the smallest normal number">;

def MPC_ClipOp : MPC_UnaryOp<"clip">,
    MPC_Policy<["Clip"], "Clear", "Clear", "exact within its bounds"> {
  let summary = "elementwise min(max(x, min), max)";
  let description = [{
    A bound that is absent has no effect.

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

def MPC_AddOp : MPC_DescribedBinaryOp<"add", "a + b", [Commutative]>, MPC_RoundingPolicy<["Add"]>;
def MPC_SubOp : MPC_DescribedBinaryOp<"sub", "a - b">, MPC_RoundingPolicy<["Sub"]>;
def MPC_MulOp : MPC_DescribedBinaryOp<"mul", "a * b", [Commutative]>, MPC_RoundingPolicy<["Mul"]>;
def MPC_DivOp : MPC_DescribedBinaryOp<"div",
    "a / b (of integers: truncated, and 0 where b is 0)">, MPC_RoundingPolicy<["Div"]>;
def MPC_PowOp : MPC_DescribedBinaryOp<"pow",
    "a to the power of b (of integers below 0: truncated, and 0 where a is 0)">,
    MPC_Policy<["Pow"], "Deny", "Infer", "magnifies the argument's error and range">;
def MPC_MaximumOp : MPC_DescribedBinaryOp<"maximum", "max(a, b)", [Commutative]>,
    MPC_ExactPolicy<["Max"]>;
def MPC_MinimumOp : MPC_DescribedBinaryOp<"minimum", "min(a, b)", [Commutative]>,
    MPC_ExactPolicy<["Min"]>;

def MPC_ModOp : MPC_BinaryOp<"mod", [], MPC_NumberTensor>,
    MPC_Policy<["Mod"], "Deny", "Infer",
               "an error of the arguments can become one of the divisor"> {
  let summary = "elementwise remainder of a / b";
  let description = [{
    Has the sign of b, as in Python, or with `fmod` the sign of a, as in C.
    Floats require `fmod`. For b = 0 the result is 0 for integers and NaN for
    floats.

    ```mlir
    %c = mpc.mod %a, %b : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
    ```
  }];
  let arguments = (ins MPC_NumberTensor:$lhs, MPC_NumberTensor:$rhs,
                       DefaultValuedAttr<BoolAttr, "false">:$fmod);
  let hasFolder = 1;
  let hasVerifier = 1;
}

// An op on booleans, or on each bit of integers.
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

def MPC_AndOp : MPC_BitsOp<"and", "a and b, bit by bit", MPC_BitsTensor, [Commutative]>,
    MPC_NoFloatsPolicy<["And", "BitwiseAnd"]>;
def MPC_OrOp : MPC_BitsOp<"or", "a or b, bit by bit", MPC_BitsTensor, [Commutative]>,
    MPC_NoFloatsPolicy<["Or", "BitwiseOr"]>;
def MPC_XorOp : MPC_BitsOp<"xor", "exclusive or of a and b, bit by bit",
    MPC_BitsTensor, [Commutative]>, MPC_NoFloatsPolicy<["Xor", "BitwiseXor"]>;
def MPC_ShiftLeftOp : MPC_BitsOp<"shift_left",
    "a * 2^b (0 where b is negative, or not below the number of bits)",
    MPC_IntegerTensor>, MPC_NoFloatsPolicy<["BitShift"]>;
def MPC_ShiftRightOp : MPC_BitsOp<"shift_right",
    "a / 2^b, rounded down (0 or -1 where b is negative, or not below the number of bits)",
    MPC_IntegerTensor>, MPC_NoFloatsPolicy<[]>;

def MPC_NotOp : MPC_UnaryOp<"not", [], MPC_BitsTensor>, MPC_NoFloatsPolicy<["Not", "BitwiseNot"]> {
  let summary = "elementwise complement of all bits";
  let description = [{
    Logical not of booleans.

    ```mlir
    %y = mpc.not %x : (tensor<4x8xi1>) -> tensor<4x8xi1>
    ```
  }];
  let hasFolder = 1;
}

def MPC_FakeQuantizeOp : MPC_TensorOp<"fake_quantize", "Elementwise">,
    MPC_Policy<["QuantizeLinear", "DequantizeLinear"], "Deny", "Deny",
               "an error of the argument can become a step of the scale", fp32Operands = [1, 2]> {
  let summary = "elementwise rounding to a quantized number, as a float";
  let description = [{
    QuantizeLinear followed by DequantizeLinear. Let p be x / scale rounded to
    the nearest whole number, half to even, plus `zero_point`, and q be p
    clamped to [low, high]. The result is (q - zero_point) * scale. `scale` and
    the integral `zero_point` broadcast to x: per tensor, per channel, or per
    element. NaN stays NaN.

    The gradient is straight-through, as of PyTorch's fake_quantize. The
    gradient of x is dy if p is in [low, high], else 0. The gradient of `scale`
    treats rounding as if its slope were 1: dy times p - zero_point - x / scale
    if p is in [low, high], else dy times q - zero_point. `zero_point` has no
    gradient.

    ```mlir
    %y = mpc.fake_quantize %w, %scale, %zero {low = -128 : i64, high = 127 : i64}
        : (tensor<8x4xf32>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input, MPC_FloatTensor:$scale,
                       MPC_FloatTensor:$zero_point, I64Attr:$low, I64Attr:$high);
  let results = (outs MPC_FloatTensor:$output);
}

def MPC_BCEWithLogitsOp : MPC_BinaryOp<"bce_with_logits">,
    MPC_Policy<[], "Deny", "Deny", "a loss: exponentials and a logarithm"> {
  let summary = "elementwise binary cross entropy of logits x and targets t";
  let description = [{
    Computes max(x, 0) - x * t + log1p(exp(-|x|)) without a reduction; the
    formula neither overflows nor loses digits. `lhs` is x, `rhs` is t.

    ```mlir
    %l = mpc.bce_with_logits %x, %t
        : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    ```
  }];
}

def MPC_BCEOp : MPC_BinaryOp<"bce">, MPC_Policy<[], "Deny", "Deny", "a loss: logarithms"> {
  let summary = "elementwise binary cross entropy of probabilities p and targets t";
  let description = [{
    Computes -(t * log(p) + (1 - t) * log(1 - p)) without a reduction. As in
    PyTorch, each logarithm is at least -100. NaN if p is not in [0, 1]. `lhs`
    is p, `rhs` is t.

    ```mlir
    %l = mpc.bce %p, %t
        : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    ```
  }];
}

// A comparison of two operands, which broadcast by NumPy's rules. The result is
// false if an operand is NaN.
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

def MPC_EqualOp : MPC_CompareOp<"equal", "a == b", MPC_Tensor, [Commutative]>,
    MPC_ExactPolicy<["Equal"]>;
def MPC_LessOp : MPC_CompareOp<"less", "a < b", MPC_NumberTensor>,
    MPC_ExactPolicy<["Less", "Greater"]>;
def MPC_LessOrEqualOp : MPC_CompareOp<"less_or_equal", "a <= b", MPC_NumberTensor>,
    MPC_ExactPolicy<["LessOrEqual", "GreaterOrEqual"]>;

// A test of each element of a float operand, for example for NaN: the result is
// a boolean tensor.
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

def MPC_IsNaNOp : MPC_ClassifyOp<"is_nan", "NaN">, MPC_ExactPolicy<["IsNaN"]>;
def MPC_IsInfOp : MPC_ClassifyOp<"is_inf",
    "infinite, of a sign that 'positive' and 'negative' allow",
    (ins DefaultValuedAttr<BoolAttr, "true">:$negative,
         DefaultValuedAttr<BoolAttr, "true">:$positive)>, MPC_ExactPolicy<["IsInf"]>;

def MPC_CastOp : MPC_ShapedOp<"cast", "Elementwise">,
    MPC_Policy<["Cast"], "Fixed", "Fixed", "the model's own conversion">, MPC_Linear {
  let summary = "ONNX Cast: a conversion the model asks for";
  let description = [{
    Part of the model's meaning, unlike `amp.cast`: never removed if it loses
    values. A cast to bool tests for non-zero. A cast to a narrower integer
    keeps the low bits. A cast from float to integer truncates to i64 first, or
    to ui64 for a ui64 result and values of 2^63 and more, then keeps the low
    bits. NaN and values beyond 64 bits count as -2^63, whose low bits are 0.

    ```mlir
    %y = mpc.cast %x : (tensor<8xi64>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
}

def MPC_BitCastOp : MPC_ShapedOp<"bit_cast", "Elementwise">,
    MPC_Policy<["BitCast"], "Deny", "Deny", "its bits are those of the model's type"> {
  let summary = "ONNX BitCast: the same bits as another type of that width";
  let description = [{
    The bits of a float depend on its type in the model: with --precision
    64-true, an f32 of the model is rounded to f32 first. A signalling NaN of a
    float16 becomes quiet. The op has no derivative.

    ```mlir
    %y = mpc.bit_cast %x : (tensor<8xf32>) -> tensor<8xi32>
    ```
  }];
  let arguments = (ins MPC_NumberTensor:$input);
  let results = (outs MPC_NumberTensor:$output);
  let hasFolder = 1;
}

def MPC_DropoutOp : MPC_TensorOp<"dropout", "Elementwise",
    [DeclareOpInterfaceMethods<IndexedOpInterface, ["getIndexedAxes", "getIndexedShape"]>]>,
    MPC_Policy<["Dropout"], "Clear", "Clear", "drops, or scales by one factor">, MPC_Linear {
  let summary = "training-mode dropout with a counter-based mask";
  let description = [{
    Element i becomes x[i] / (1 - ratio) with probability 1 - ratio, and 0
    otherwise. The choice depends on (`seed`, `micro_step`, `id`, i) alone. It
    uses Philox-4x32-10 with the key made of `seed`, the counter (i / 4, `id`,
    `micro_step`) and lane i % 4. The element is kept if the lane's upper 24
    bits, as a fraction, are not below `ratio`. No mask is stored: the gradient
    is the op with equal `id` on the incoming gradient. `id` is fixed at import,
    and no pass changes it.

    An op on a box of a tensor states the position of the box, so that its
    elements get the choices they have in the whole tensor. `whole` is the shape
    of the tensor, and 4 * `group` is the index of the box's first element.

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
    [DeclareOpInterfaceMethods<IndexedOpInterface, ["getIndexedAxes"]>]>,
    MPC_Policy<["RandomUniform"], "Fixed", "Fixed",
               "has as many random digits as the model asks for"> {
  let summary = "random numbers in [0, 1), by a counter";
  let description = [{
    Element i depends on (`seed`, `micro_step`, `id`, i) alone. It uses the
    generator of `mpc.dropout`: Philox-4x32-10 with the key made of `seed` and
    the counter (i / 4, `id`, `micro_step`). The upper bits of lane i % 4 are a
    fraction with as many digits as the element type has: 24 for f32. An f64
    takes the upper 53 bits of two lanes, the lower half first: the lanes from 2
    (i % 2) of the counter i / 2. So no number is rounded, and none is 1. Each
    op of a module, dropouts included, has its own `id`.

    ```mlir
    %u = mpc.random_uniform %seed, %micro_step {id = 3 : i64}
        : (tensor<i64>, tensor<i64>) -> tensor<32x100xf32>
    ```
  }];
  let arguments = (ins MPC_IntTensor:$seed, MPC_IntTensor:$micro_step, I64Attr:$id);
  let results = (outs MPC_FloatTensor:$output);
}

def MPC_SelectOp : MPC_TensorOp<"select", "Elementwise">, MPC_ExactPolicy<["Where"]> {
  let summary = "elementwise on_true where condition, else on_false";
  let description = [{
    Shapes broadcast by NumPy's rules. In the example a single condition chooses
    all of %new or all of %old.

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
    [DeclareOpInterfaceMethods<IndexedOpInterface, ["getIndexedAxes", "readsMemory"]>]>,
    MPC_Policy<["OneHot"], "Clear", "Deny", "zeros and ones; ONNX has no bfloat16 OneHot"> {
  let summary = "1 where the index along an axis equals the label, 0 elsewhere";
  let description = [{
    Inserts an axis of size `depth` at `axis`. A label outside [0, depth), for
    example an ignored label, gives zeros.

    ```mlir
    %y = mpc.one_hot %labels {axis = 1 : i64, depth = 10 : i64}
        : (tensor<32xi64>) -> tensor<32x10xf32>
    ```
  }];
  let arguments = (ins MPC_IntTensor:$labels, I64Attr:$axis, I64Attr:$depth);
  let results = (outs MPC_FloatTensor:$output);
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCELEMENTWISEOPS_TD
