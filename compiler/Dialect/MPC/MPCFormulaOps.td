// Elementwise functions of one operand, defined by formulas. Each op has a row
// in Formulas.def, which has the formula.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCFORMULAOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCFORMULAOPS_TD

include "compiler/Dialect/MPC/MPC.td"

class MPC_FormulaOp<string mnemonic, string formula, dag parameters = (ins)>
    : MPC_UnaryOp<mnemonic>, MPC_PolicyOfFormula<mnemonic> {
  let summary = "elementwise " # formula;
  let description = "Computes " # formula # [{ for every element.

    ```mlir
    %y = mpc.}] # mnemonic # [{ %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$input), parameters);
}

// A function whose results are whole numbers, equal on all machines, so
// constants fold (FloatFormulas.h).
class MPC_WholeNumberOp<string mnemonic, string formula>
    : MPC_FormulaOp<mnemonic, formula> {
  let hasFolder = 1;
}

// An attribute that is a parameter of the formula, with the default that ONNX
// specifies.
class MPC_Parameter<string value> : DefaultValuedAttr<F64Attr, value>;

def MPC_AcosOp : MPC_FormulaOp<"acos", "the angle in [0, pi] whose cosine is x; NaN beyond 1">;
def MPC_AcoshOp : MPC_FormulaOp<"acosh", "log(x + sqrt(x^2 - 1)); NaN below 1">;
def MPC_AsinOp : MPC_FormulaOp<"asin",
    "the angle in [-pi / 2, pi / 2] whose sine is x; NaN beyond 1">;
def MPC_AsinhOp : MPC_FormulaOp<"asinh", "log(x + sqrt(x^2 + 1))">;
def MPC_AtanOp : MPC_FormulaOp<"atan", "the angle in [-pi / 2, pi / 2] whose tangent is x">;
def MPC_AtanhOp : MPC_FormulaOp<"atanh", "log((1 + x) / (1 - x)) / 2; NaN beyond 1">;
def MPC_CeilOp : MPC_WholeNumberOp<"ceil", "the smallest whole number that is not below x">;
def MPC_CeluOp : MPC_FormulaOp<"celu", "x, or alpha (exp(x / alpha) - 1) below 0",
    (ins MPC_Parameter<"1.0">:$alpha)>;
def MPC_CosOp : MPC_FormulaOp<"cos", "cosine of x radians; NaN of an infinity">;
def MPC_CoshOp : MPC_FormulaOp<"cosh", "(exp(x) + exp(-x)) / 2">;
def MPC_EluOp : MPC_FormulaOp<"elu", "x, or alpha (exp(x) - 1) below 0",
    (ins MPC_Parameter<"1.0">:$alpha)>;
def MPC_ErfOp : MPC_FormulaOp<"erf", "erf(x)">;
def MPC_FloorOp : MPC_WholeNumberOp<"floor", "the largest whole number that is not above x">;
def MPC_GeluOp : MPC_FormulaOp<"gelu", "x / 2 * (1 + erf(x / sqrt(2)))">;
def MPC_GeluTanhOp : MPC_FormulaOp<"gelu_tanh",
    "x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))">;
def MPC_HardSigmoidOp : MPC_FormulaOp<"hard_sigmoid", "alpha x + beta between 0 and 1",
    (ins MPC_Parameter<"0.2">:$alpha, MPC_Parameter<"0.5">:$beta)>;
def MPC_HardSwishOp : MPC_FormulaOp<"hard_swish", "x times (x / 6 + 1/2 between 0 and 1)">;
def MPC_LeakyReluOp : MPC_FormulaOp<"leaky_relu", "x, or alpha x below 0",
    (ins MPC_Parameter<"0.01">:$alpha)>;
def MPC_MishOp : MPC_FormulaOp<"mish", "x tanh(log(1 + exp(x)))">;
def MPC_RoundOp : MPC_WholeNumberOp<"round", "the whole number nearest to x, the even one of two">;
def MPC_SeluOp : MPC_FormulaOp<"selu", "gamma x, or gamma alpha (exp(x) - 1) below 0",
    (ins MPC_Parameter<"1.67326319217681884765625">:$alpha,
         MPC_Parameter<"1.05070102214813232421875">:$gamma)>;
def MPC_ShrinkOp : MPC_FormulaOp<"shrink", "x with bias towards 0, and 0 from -lambd to lambd",
    (ins MPC_Parameter<"0.0">:$bias, MPC_Parameter<"0.5">:$lambd)>;
def MPC_SinOp : MPC_FormulaOp<"sin", "sine of x radians; NaN of an infinity">;
def MPC_SinhOp : MPC_FormulaOp<"sinh", "(exp(x) - exp(-x)) / 2">;
def MPC_SoftplusOp : MPC_FormulaOp<"softplus", "log(1 + exp(x))">;
def MPC_SoftsignOp : MPC_FormulaOp<"softsign", "x / (1 + |x|)">;
def MPC_SwishOp : MPC_FormulaOp<"swish", "x / (1 + exp(-alpha x))",
    (ins MPC_Parameter<"1.0">:$alpha)>;
def MPC_TanOp : MPC_FormulaOp<"tan", "tangent of x radians; NaN of an infinity">;
def MPC_ThresholdedReluOp : MPC_FormulaOp<"thresholded_relu", "x where it is above alpha, else 0",
    (ins MPC_Parameter<"1.0">:$alpha)>;

def MPC_FormulaGradOp : MPC_TensorOp<"formula_grad", "Elementwise">,
    MPC_PolicyOfAttribute<"getOf">, MPC_Linear {
  let summary = "gradient of any op of Formulas.def";
  let description = [{
    Computes dy times the derivative at x of the formula named `of`, with the
    parameters `a` and `b`; NaN if x is NaN. The derivative is the formula
    evaluated over dual numbers, so no row needs a second formula.

    ```mlir
    %dx = mpc.formula_grad %dy, %x {of = "leaky_relu", a = 0.2 : f64}
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$input, StrAttr:$of,
                       DefaultValuedAttr<F64Attr, "0.0">:$a,
                       DefaultValuedAttr<F64Attr, "0.0">:$b);
  let results = (outs MPC_FloatTensor:$d_input);
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCFORMULAOPS_TD
