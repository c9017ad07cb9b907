// Formulas of the forward elementwise ops.
//
// Comparisons are written so that NaN passes through. A broken gradient must
// become visible instead of being clamped.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

template <typename OpTy, Value (Lanes::*method)(Value)>
static void addUnary(ElementwiseTable &table) {
  table.add<OpTy>([](Lanes &l, OpTy, typename OpTy::Adaptor in) {
    return (l.*method)(in.getInput());
  });
}

template <typename OpTy, Value (Lanes::*method)(Value, Value)>
static void addBinary(ElementwiseTable &table) {
  table.add<OpTy>([](Lanes &l, OpTy, typename OpTy::Adaptor in) {
    return (l.*method)(in.getLhs(), in.getRhs());
  });
}

static Value emitIsInf(Lanes &l, IsInfOp op, IsInfOp::Adaptor in) {
  Value x = in.getInput();
  Value infinity = l.constant(std::numeric_limits<double>::infinity());
  auto equals = [&](Value value) {
    return l.compare(arith::CmpFPredicate::OEQ, value, infinity);
  };
  if (op.getNegative() && op.getPositive())
    return equals(l.abs(x));
  if (op.getPositive())
    return equals(x);
  ImplicitLocOpBuilder &b = l.getBuilder();
  return op.getNegative() ? equals(l.neg(x))
                          : l.broadcast(l.integer(b.getI1Type(), 0), x);
}

template <typename OpTy>
static void addComparison(ElementwiseTable &table,
                          arith::CmpFPredicate predicate) {
  table.add<OpTy>([predicate](Lanes &l, OpTy, typename OpTy::Adaptor in) {
    return l.compare(predicate, in.getLhs(), in.getRhs());
  });
}

// Returns x^n for a small positive n.
static Value multiply(Lanes &l, Value x, int64_t n) {
  Value product = x;
  while (--n > 0)
    product = l.mul(product, x);
  return product;
}

// Returns x^exponent as products and roots: x^2 is x*x, correctly rounded, and
// x^-0.5 is 1/sqrt(x). Null for exponents for which a call is cheaper.
static Value emitConstantPower(Lanes &l, Value x, double exponent) {
  bool isWhole = exponent == std::floor(exponent);
  double halves = 2 * exponent, largest = isWhole ? 3 : 1.5;
  if (!(std::abs(exponent) <= largest) || halves != std::floor(halves))
    return nullptr;
  if (exponent == 0)
    return l.broadcast(l.constant(1), x);
  if (exponent < 0) {
    Value inverse = l.div(l.constant(1), isWhole ? x : l.sqrt(x));
    return multiply(l, inverse, -(isWhole ? exponent : halves));
  }
  if (isWhole)
    return multiply(l, x, exponent);
  Value root = l.sqrt(x);
  return exponent < 1 ? root : l.mul(multiply(l, x, exponent), root);
}

static Value emitPow(Lanes &l, PowOp op, PowOp::Adaptor in) {
  if (std::optional<double> exponent = getConstantNumber(op.getRhs()))
    if (Value power = emitConstantPower(l, in.getLhs(), *exponent))
      return l.broadcast(power, in.getRhs());
  return l.pow(in.getLhs(), in.getRhs());
}

static Value emitSign(Lanes &l, SignOp, SignOp::Adaptor in) {
  Value x = in.getInput(), zero = l.constant(0);
  Value negative = l.compare(arith::CmpFPredicate::OLT, x, zero);
  Value positive = l.compare(arith::CmpFPredicate::OGT, x, zero);
  // Zero and NaN are neither positive nor negative, and pass through unchanged.
  return l.select(positive, l.constant(1),
                  l.select(negative, l.constant(-1), x));
}

static Value emitRelu(Lanes &l, ReluOp, ReluOp::Adaptor in) {
  Value zero = l.constant(0);
  Value keep = l.compare(arith::CmpFPredicate::UGT, in.getInput(), zero);
  return l.select(keep, in.getInput(), zero);
}

static Value emitSigmoid(Lanes &l, SigmoidOp, SigmoidOp::Adaptor in) {
  Value one = l.constant(1);
  return l.div(one, l.add(one, l.exp(l.neg(in.getInput()))));
}

static Value emitClip(Lanes &l, ClipOp op, ClipOp::Adaptor in) {
  Value x = in.getInput();
  if (op.getMin()) {
    Value min = l.constant(op.getMin()->convertToDouble());
    x = l.select(l.compare(arith::CmpFPredicate::OLT, x, min), min, x);
  }
  if (op.getMax()) {
    Value max = l.constant(op.getMax()->convertToDouble());
    x = l.select(l.compare(arith::CmpFPredicate::OGT, x, max), max, x);
  }
  return x;
}

static Value emitBCEWithLogits(Lanes &l, BCEWithLogitsOp,
                               BCEWithLogitsOp::Adaptor in) {
  Value x = in.getLhs(), t = in.getRhs();
  Value linear = l.sub(l.maximum(x, l.constant(0)), l.mul(x, t));
  Value decay = l.exp(l.neg(l.abs(x)));
  return l.add(linear, math::Log1pOp::create(l.getBuilder(), decay));
}

// Returns `x`, or -100 if `x` is less. NaN passes through.
static Value atLeastMinus100(Lanes &l, Value x) {
  Value least = l.constant(-100);
  return l.select(l.compare(arith::CmpFPredicate::OLT, x, least), least, x);
}

static Value emitBCE(Lanes &l, BCEOp, BCEOp::Adaptor in) {
  Value p = in.getLhs(), t = in.getRhs();
  auto &b = l.getBuilder();
  Value yes = atLeastMinus100(l, l.log(p));
  Value no = atLeastMinus100(l, math::Log1pOp::create(b, l.neg(p)));
  return l.sub(l.mul(l.sub(t, l.constant(1)), no), l.mul(t, yes));
}

void codegen::addMathFormulas(ElementwiseTable &table) {
  addUnary<NegOp, &Lanes::neg>(table);
  addUnary<AbsOp, &Lanes::abs>(table);
  addUnary<ExpOp, &Lanes::exp>(table);
  addUnary<LogOp, &Lanes::log>(table);
  addUnary<SqrtOp, &Lanes::sqrt>(table);
  table.add<SignOp>(emitSign);
  table.add<ReluOp>(emitRelu);
  table.add<SigmoidOp>(emitSigmoid);
  table.add<TanhOp>([](Lanes &l, TanhOp, TanhOp::Adaptor in) -> Value {
    return math::TanhOp::create(l.getBuilder(), in.getInput());
  });
  table.add<ReciprocalOp>([](Lanes &l, ReciprocalOp, ReciprocalOp::Adaptor in) {
    return l.div(l.constant(1), in.getInput());
  });
  table.add<ClipOp>(emitClip);

  addBinary<AddOp, &Lanes::add>(table);
  addBinary<SubOp, &Lanes::sub>(table);
  addBinary<MulOp, &Lanes::mul>(table);
  addBinary<DivOp, &Lanes::div>(table);
  table.add<PowOp>(emitPow);
  addBinary<MaximumOp, &Lanes::maximum>(table);
  addBinary<MinimumOp, &Lanes::minimum>(table);
  table.add<BCEOp>(emitBCE);
  table.add<BCEWithLogitsOp>(emitBCEWithLogits);
  addComparison<EqualOp>(table, arith::CmpFPredicate::OEQ);
  table.add<IsNaNOp>([](Lanes &l, IsNaNOp, IsNaNOp::Adaptor in) {
    return l.compare(arith::CmpFPredicate::UNO, in.getInput(), in.getInput());
  });
  table.add<IsInfOp>(emitIsInf);
  addComparison<LessOp>(table, arith::CmpFPredicate::OLT);
  addComparison<LessOrEqualOp>(table, arith::CmpFPredicate::OLE);

  table.add<SelectOp>([](Lanes &l, SelectOp, SelectOp::Adaptor in) {
    return l.select(in.getCondition(), in.getOnTrue(), in.getOnFalse());
  });
  // mpc.expand computes nothing: operands are broadcast when they are read.
  table.add<ExpandOp>(
      [](Lanes &l, ExpandOp, ExpandOp::Adaptor in) { return in.getInput(); });
}
