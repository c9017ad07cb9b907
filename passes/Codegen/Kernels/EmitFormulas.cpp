// Code of the functions of Formulas.def and of their derivatives.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Formulas.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/ElementwiseTable.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;
using Predicate = arith::CmpFPredicate;

namespace mpc::codegen {
namespace {

/// A number of a formula that is evaluated by generated code: what is done with
/// it becomes ops.
struct Number {
  Lanes *l;
  Value value;
};
struct Condition {
  Lanes *l;
  Value value;
};

Number operator-(Number x) { return {x.l, x.l->neg(x.value)}; }

/// Both numbers, or one and a constant.
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
/// The op of the math dialect that has the word's name.
#define MPC_FUNCTION(WORD, OP)                                                 \
  Number WORD(Number x) {                                                      \
    return {x.l, math::OP::create(x.l->getBuilder(), x.value)};                \
  }
MPC_FUNCTION(log1p, Log1pOp)
MPC_FUNCTION(erf, ErfOp)
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
/// From 20 on it is 1 in any type; the polynomial of f32 stays some units of
/// the last place below.
Number tanh(Number x) {
  Lanes &l = *x.l;
  ImplicitLocOpBuilder &b = l.getBuilder();
  Value one = l.broadcast(l.constant(1), x.value);
  Value end = math::CopySignOp::create(b, one, x.value);
  Value isFar = l.compare(Predicate::OGE, l.abs(x.value), l.constant(20));
  return {&l, l.select(isFar, end, math::TanhOp::create(b, x.value))};
}
Number max(Number x, double y) {
  return {x.l, x.l->maximum(x.value, x.l->constant(y))};
}
Number min(Number x, double y) {
  return {x.l, x.l->minimum(x.value, x.l->constant(y))};
}

/// Adds the op of a row.
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

/// The slope at x of the formula of the op that `of` names.
Number emitSlope(StringRef of, formulas::Dual<Number> x, double a, double b) {
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  if (of == #MNEMONIC)                                                         \
    return formulas::OP##Formula::evaluate(x, a, b).slope;
#include "compiler/Dialect/MPC/Formulas.def"
  llvm_unreachable("the op checks its attribute");
}

// A NaN in x makes the gradient NaN, also where the formula is constant and its
// slope 0.
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
