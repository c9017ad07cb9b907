// Emits the functions of Formulas.def and their derivatives.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Formulas.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;
using Predicate = arith::CmpFPredicate;

namespace mpc::codegen {
namespace {

/// The number type with which the formulas of Formulas.def are instantiated.
/// Arithmetic on a Number emits ops.
struct Number {
  Lanes *l;
  Value value;
};
struct Condition {
  Lanes *l;
  Value value;
};

Number operator-(Number x) { return {x.l, x.l->neg(x.value)}; }

/// Defines the operator SIGN on two numbers, and on a number and a constant.
#define MPC_OPERATOR(SIGN, METHOD)                                             \
  Number operator SIGN(Number x, Number y) {                                   \
    return {x.l, x.l->METHOD(x.value, y.value)};                               \
  }                                                                            \
  [[maybe_unused]] Number operator SIGN(Number x, double y) {                  \
    return {x.l, x.l->METHOD(x.value, x.l->constant(y))};                      \
  }                                                                            \
  [[maybe_unused]] Number operator SIGN(double x, Number y) {                  \
    return {y.l, y.l->METHOD(y.l->constant(x), y.value)};                      \
  }
MPC_OPERATOR(+, add)
MPC_OPERATOR(-, sub)
MPC_OPERATOR(*, mul)
MPC_OPERATOR(/, div)
#undef MPC_OPERATOR

Condition operator<(Number x, double y) {
  return {x.l, x.l->compare(Predicate::OLT, x.value, x.l->constant(y))};
}
Condition operator<=(Number x, double y) {
  return {x.l, x.l->compare(Predicate::OLE, x.value, x.l->constant(y))};
}
Number where(Condition condition, Number x, Number y) {
  return {x.l, x.l->select(condition.value, x.value, y.value)};
}
Number where(Condition condition, double x, Number y) {
  return {y.l, y.l->select(condition.value, y.l->constant(x), y.value)};
}

Number exp(Number x) { return {x.l, x.l->exp(x.value)}; }
Number abs(Number x) { return {x.l, x.l->abs(x.value)}; }
Number sqrt(Number x) { return {x.l, x.l->sqrt(x.value)}; }
/// Emits erf x, but returns x itself if x is +0 or -0: MLIR's f32 polynomial
/// would turn -0 into +0.
Number erf(Number x) {
  Value value = math::ErfOp::create(x.l->getBuilder(), x.value);
  Value isZero = x.l->compare(Predicate::OEQ, x.value, x.l->constant(0));
  return {x.l, x.l->select(isZero, x.value, value)};
}
/// Defines the function WORD, which emits the op math::OP.
#define MPC_FUNCTION(WORD, OP)                                                 \
  Number WORD(Number x) {                                                      \
    return {x.l, math::OP::create(x.l->getBuilder(), x.value)};                \
  }
MPC_FUNCTION(log1p, Log1pOp)
MPC_FUNCTION(sin, SinOp)
MPC_FUNCTION(cos, CosOp)
MPC_FUNCTION(tan, TanOp)
MPC_FUNCTION(asin, AsinOp)
MPC_FUNCTION(acos, AcosOp)
MPC_FUNCTION(atan, AtanOp)
MPC_FUNCTION(sinh, SinhOp)
MPC_FUNCTION(cosh, CoshOp)
MPC_FUNCTION(asinh, AsinhOp)
MPC_FUNCTION(acosh, AcoshOp)
MPC_FUNCTION(atanh, AtanhOp)
MPC_FUNCTION(floor, FloorOp)
MPC_FUNCTION(ceil, CeilOp)
MPC_FUNCTION(roundeven, RoundEvenOp)
#undef MPC_FUNCTION
/// Emits tanh x. From |x| = 20 on, the rounded result is 1 or -1 in any type.
/// The f32 polynomial stays a few units in the last place below 1, so select
/// the result.
Number tanh(Number x) {
  Lanes &l = *x.l;
  ImplicitLocOpBuilder &b = l.getBuilder();
  Value one = l.broadcast(l.constant(1), x.value);
  Value end = math::CopySignOp::create(b, one, x.value);
  Value isFar = l.compare(Predicate::OGE, l.abs(x.value), l.constant(20));
  return {&l, l.select(isFar, end, math::TanhOp::create(b, x.value))};
}
/// Emits coefficients[0] + coefficients[1] * x + ..., by Horner's rule.
Number series(Number x, ArrayRef<double> coefficients) {
  Lanes &l = *x.l;
  auto like = [&](double number) {
    return l.broadcast(l.constant(number), x.value);
  };
  Value sum = like(coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = math::FmaOp::create(l.getBuilder(), sum, x.value, like(coefficient));
  return {&l, sum};
}

/// Emits e^(-x^2/2), corrected for the rounding error of x^2. Without the
/// correction, the relative error of x^2 would grow by a factor of x^2 / 2 in
/// the result. The error follows exactly from two halves of x, of 26 digits
/// each, even on CPUs without fused multiply-adds. From |x| = 40 on the result
/// is 0 and not corrected, since the halves of infinity would be NaN.
Number decayOfF64(Number x) {
  constexpr double kSplit = 0x1.0000002p27;
  Number square = x * x, decay = exp(-0.5 * square);
  Number scaled = kSplit * x, high = scaled - (scaled - x), low = x - high;
  Number lost = (high * high - square) + 2.0 * (high * low) + low * low;
  return where(abs(x) < 40, decay * (1.0 - 0.5 * lost), decay);
}

/// Emits the distribution function of the normal distribution. For a negative
/// x, the result is e^(-x^2/2) t p with t = 1 / (1 + a |x|). For f32, p is a
/// polynomial of t, with a = 0.35 and a relative error below 5.5e-8. For f64, p
/// is a polynomial of 2 t - 1, with a = 0.25 and a relative error of 1.4e-16.
/// The derivative needs the same exponential. Small results keep their digits,
/// which a formula with 1 + erf would lose.
Number normalCDF(Number x) {
  // Coefficients, from the constant to the highest power.
  constexpr double ofF32[] = {0x1.1df1c6p-3,  0x1.1e70c4p-3,  0x1.eac9b6p-4,
                              0x1.b057dep-4,  -0x1.7c502ap-6, 0x1.464982p-3,
                              -0x1.05fab4p-2, 0x1.26f9bap-3,  -0x1.ddb91ap-6};
  constexpr double ofF64[] = {
      0x1.82b4bb8c94dcep-3,   0x1.373e3a893c28ap-3,   0x1.8c6dbf2cfc2afp-4,
      0x1.7dff2bff6836fp-5,   0x1.eec4cc3e4dc28p-7,   0x1.ee27610489488p-10,
      -0x1.c81719d61b984p-11, -0x1.ab825fc31e6b6p-12, 0x1.17a4aec5034d2p-15,
      0x1.e4a425e64becdp-15,  -0x1.001f476f64d56p-21, -0x1.26d0a086a6f5fp-17,
      0x1.80c1d81b2e133p-23,  0x1.8d4b8226b2abep-20,  -0x1.520fe422b9a7cp-23,
      -0x1.12365ab4f70dap-22, 0x1.23d2974c408ccp-24,  0x1.4cb4177d9055cp-25,
      -0x1.6ea9366c71d31p-26, -0x1.c7a5cd3cedadap-29, 0x1.5083bc814519ep-28,
      -0x1.0790e75d68ebdp-31, -0x1.5929145f28705p-31, 0x1.8d587b432f065p-33};
  bool isF64 = x.l->getComputeType().isF64();
  const double scale = isF64 ? 0.25 : 0x1.666666p-2;
  Number t = 1.0 / series(abs(x), {1, scale});
  Number p = isF64 ? series(series(t, {-1, 2}), ofF64) : series(t, ofF32);
  // Compute the result at -|x|, which is small. For a positive x, return 1
  // minus that result.
  Number decay = isF64 ? decayOfF64(x) : exp(-0.5 * (x * x));
  Number below = t * p * decay;
  return where(x < 0.0, below, 1.0 - below);
}
Number max(Number x, double y) {
  return {x.l, x.l->maximum(x.value, x.l->constant(y))};
}
Number min(Number x, double y) {
  return {x.l, x.l->minimum(x.value, x.l->constant(y))};
}

/// Adds the formula of OpTy, a row of Formulas.def, to the table.
template <typename OpTy, typename F>
void addFormula(ElementwiseTable &table) {
  table.add<OpTy>([](Lanes &l, OpTy op, typename OpTy::Adaptor in) {
    const formulas::Formula &formula =
        *formulas::findFormula(OpTy::getOperationName().drop_front(4));
    return F::evaluate(Number{&l, in.getInput()},
                       formulas::getParameter(op, formula.a),
                       formulas::getParameter(op, formula.b))
        .value;
  });
}

/// Returns the derivative at x of the op with mnemonic `of` and parameters `a`
/// and `b`.
Number emitSlope(StringRef of, formulas::Dual<Number> x, double a, double b) {
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  if (of == #MNEMONIC)                                                         \
    return formulas::OP##Formula::evaluate(x, a, b).slope;
#include "compiler/Dialect/MPC/Formulas.def"
  llvm_unreachable("the op checks its attribute");
}

// A NaN in x makes the gradient NaN, even if the formula is constant there,
// with slope 0.
Value emitFormulaGrad(Lanes &l, FormulaGradOp op, FormulaGradOp::Adaptor in) {
  Number x{&l, in.getInput()}, one{&l, l.constant(1)};
  Number slope = emitSlope(op.getOf(), {x, one}, op.getA().convertToDouble(),
                           op.getB().convertToDouble());
  Value gradient = l.mul(in.getDOutput(), slope.value);
  Value isNaN = l.compare(Predicate::UNO, x.value, x.value);
  return l.select(isNaN, x.value, gradient);
}

} // namespace
} // namespace mpc::codegen

void codegen::addFormulas(ElementwiseTable &table) {
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  addFormula<OP##Op, formulas::OP##Formula>(table);
#include "compiler/Dialect/MPC/Formulas.def"
  table.add<FormulaGradOp>(emitFormulaGrad);
}
