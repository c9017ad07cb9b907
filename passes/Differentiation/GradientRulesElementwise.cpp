// Gradient rules of elementwise ops. GradientBuilder::add sums the gradients of
// broadcast operands.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/GradientRules.h"

#include "compiler/Dialect/MPC/Facts/Clamps.h"
#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"
#include "compiler/Dialect/MPC/Formulas.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// One operand
//===----------------------------------------------------------------------===//

static void gradNeg(NegOp op, GradientBuilder &g) {
  g.add(0, "dx", g.neg(g.at("dx"), g.dy()));
}

static void gradAbs(AbsOp op, GradientBuilder &g) {
  Location loc = g.at("dx");
  Value sign = SignOp::create(g.ops(), loc, op.getType(), op.getInput());
  g.add(0, "dx", g.mul(loc, g.dy(), sign));
}

// The sign is constant almost everywhere, so the gradient of x is zero.
static void gradSign(SignOp, GradientBuilder &) {}

static void gradRelu(ReluOp op, GradientBuilder &g) {
  g.add(0, "dx",
        ReluGradOp::create(g.ops(), g.at("dx"), g.dy().getType(), g.dy(),
                           op.getOutput()));
}

static void gradSigmoid(SigmoidOp op, GradientBuilder &g) {
  g.add(0, "dx",
        SigmoidGradOp::create(g.ops(), g.at("dx"), g.dy().getType(), g.dy(),
                              op.getOutput()));
}

static void gradTanh(TanhOp op, GradientBuilder &g) {
  g.add(0, "dx",
        TanhGradOp::create(g.ops(), g.at("dx"), g.dy().getType(), g.dy(),
                           op.getOutput()));
}

static void gradExp(ExpOp op, GradientBuilder &g) {
  g.add(0, "dx", g.mul(g.at("dx"), g.dy(), op.getOutput()));
}

static void gradLog(LogOp op, GradientBuilder &g) {
  g.add(0, "dx",
        DivOp::create(g.ops(), g.at("dx"), g.dy().getType(), g.dy(),
                      op.getInput()));
}

// y = sqrt(x), so dx = dy / (2 y).
static void gradSqrt(SqrtOp op, GradientBuilder &g) {
  Location loc = g.at("dx");
  Value half = g.scale(loc, g.dy(), 0.5);
  g.add(0, "dx",
        DivOp::create(g.ops(), loc, half.getType(), half, op.getOutput()));
}

// y = 1 / x, so dx = -dy y^2.
static void gradReciprocal(ReciprocalOp op, GradientBuilder &g) {
  Location loc = g.at("dx");
  Value product =
      g.mul(loc, g.mul(loc, g.dy(), op.getOutput()), op.getOutput());
  g.add(0, "dx", g.neg(loc, product));
}

// mpc.clip_grad passes the gradient on at a bound. If an element at a bound
// gets none, the rule selects by comparisons instead.
static void gradClip(ClipOp op, GradientBuilder &g) {
  Location loc = g.at("dx");
  if (!op->hasAttr(kClampsAttr)) {
    g.add(0, "dx",
          ClipGradOp::create(g.ops(), loc, g.dy().getType(), g.dy(),
                             op.getInput(), op.getMinAttr(), op.getMaxAttr()));
    return;
  }
  Value x = op.getInput(), dx = g.dy();
  Value zero = g.constant(loc, 0.0, dx);
  auto selectIfLess = [&](Value a, Value b) {
    Value isLess = LessOp::create(g.ops(), loc, a, b);
    dx = SelectOp::create(g.ops(), loc, dx.getType(), isLess, dx, zero);
  };
  if (op.getMin())
    selectIfLess(g.constant(loc, op.getMin()->convertToDouble(), x), x);
  if (op.getMax())
    selectIfLess(x, g.constant(loc, op.getMax()->convertToDouble(), x));
  g.add(0, "dx", dx);
}

// A conversion between floats passes the gradient on unchanged; integers have
// no gradient.
static void gradCast(mpc::CastOp op, GradientBuilder &g) {
  if (g.needs(0))
    g.add(0, "dx", g.dy());
}

// The table declares the operand a constant, so the walk never asks this rule
// for a gradient.
static void gradStopGradient(StopGradientOp, GradientBuilder &) {}

// Dropout of dy with the seed and counters of the forward op recomputes the
// same random mask.
static void gradDropout(DropoutOp op, GradientBuilder &g) {
  g.add(0, "dx",
        DropoutOp::create(g.ops(), g.at("dx"), g.dy().getType(), g.dy(),
                          op.getSeed(), op.getMicroStep(), op.getGroup(),
                          op.getRatioAttr(), op.getIdAttr(),
                          op.getWholeAttr()));
}

// Builds the gradient of an op in Formulas.def: `formula_grad` derives the
// slope from the formula of the op.
template <typename OpTy>
static void gradFormula(OpTy op, GradientBuilder &g) {
  const formulas::Formula &formula =
      *formulas::findFormula(OpTy::getOperationName().drop_front(4));
  OpBuilder &b = g.ops();
  auto parameter = [&](const formulas::Parameter &parameter) {
    return b.getF64FloatAttr(formulas::getParameter(op, parameter));
  };
  g.add(0, "dx",
        FormulaGradOp::create(b, g.at("dx"), g.dy().getType(), g.dy(),
                              op.getInput(), b.getStringAttr(formula.op),
                              parameter(formula.a), parameter(formula.b)));
}

//===----------------------------------------------------------------------===//
// Two operands
//===----------------------------------------------------------------------===//

// mod(a, b) = a - trunc(a / b) * b, so da = dy and db = -trunc(a / b) * dy.
static void gradMod(ModOp op, GradientBuilder &g) {
  if (g.needs(0))
    g.add(0, "da", g.dy());
  if (!g.needs(1))
    return;
  Location loc = g.at("db");
  Value whole = g.sub(loc, op.getLhs(), op.getOutput());
  Value count =
      DivOp::create(g.ops(), loc, whole.getType(), whole, op.getRhs());
  g.add(1, "db", g.neg(loc, g.mul(loc, g.dy(), count)));
}

static void gradAdd(AddOp op, GradientBuilder &g) {
  if (g.needs(0))
    g.add(0, "da", g.dy());
  if (g.needs(1))
    g.add(1, "db", g.dy());
}

static void gradSub(SubOp op, GradientBuilder &g) {
  if (g.needs(0))
    g.add(0, "da", g.dy());
  if (g.needs(1))
    g.add(1, "db", g.neg(g.at("db"), g.dy()));
}

static void gradMul(MulOp op, GradientBuilder &g) {
  if (g.needs(0))
    g.add(0, "da", g.mul(g.at("da"), g.dy(), op.getRhs()));
  if (g.needs(1))
    g.add(1, "db", g.mul(g.at("db"), g.dy(), op.getLhs()));
}

// For y = a / b: dy/db = -y / b.
static void gradDiv(DivOp op, GradientBuilder &g) {
  auto divide = [&](StringRef suffix, Value value) -> Value {
    return DivOp::create(g.ops(), g.at(suffix), value.getType(), value,
                         op.getRhs());
  };
  if (g.needs(0))
    g.add(0, "da", divide("da", g.dy()));
  if (g.needs(1)) {
    Location loc = g.at("db");
    Value product = g.mul(loc, g.dy(), op.getOutput());
    g.add(1, "db", g.neg(loc, divide("db", product)));
  }
}

// Returns `value` if `condition` is not zero, else 0. In the gradient of a
// power, a zero base or exponent makes `value` 0 * infinity = NaN, but the
// derivative is defined as 0.
static Value whereNonZero(GradientBuilder &g, Location loc, Value condition,
                          Value value) {
  auto type = cast<RankedTensorType>(condition.getType());
  Value flag = mpc::CastOp::create(g.ops(), loc,
                                   type.clone(g.ops().getI1Type()), condition);
  Value zero = g.constant(loc, 0.0, value);
  return SelectOp::create(g.ops(), loc, value.getType(), flag, value, zero);
}

// d(a^e)/da = e * a^(e-1). Reuses the result y = a^e if that saves an op.
static void gradConstantPow(PowOp op, double exponent, GradientBuilder &g) {
  Location loc = g.at("da");
  Value a = op.getLhs(), dy = g.dy();
  if (exponent == 0)
    return;
  if (exponent == -1) {
    Value product = g.mul(loc, g.mul(loc, dy, op.getOutput()), op.getOutput());
    return g.add(0, "da", g.neg(loc, product));
  }
  Value scaled = g.scale(loc, dy, exponent);
  if (exponent == 1)
    return g.add(0, "da", scaled);
  Value power = a;
  if (exponent != 2)
    power = PowOp::create(g.ops(), loc, getGradientType(a.getType()), a,
                          g.constant(loc, exponent - 1, a));
  g.add(0, "da", g.mul(loc, scaled, power));
}

// For y = a^b: dy/da = b a^(b-1), dy/db = y log(a).
static void gradPow(PowOp op, GradientBuilder &g) {
  Value a = op.getLhs(), b = op.getRhs();
  std::optional<double> exponent = getConstantNumber(op.getRhs());
  // A constant exponent, such as 2, has a simpler gradient than a variable
  // exponent.
  if (g.needs(0) && exponent) {
    gradConstantPow(op, *exponent, g);
  } else if (g.needs(0)) {
    Location loc = g.at("da");
    // Zero if b is 0: the gradient b * a^(b-1) is 0, but a^(b-1) may be
    // infinite.
    Value lower = g.sub(loc, b, g.constant(loc, 1.0, b));
    Value power = PowOp::create(g.ops(), loc, g.dy().getType(), a, lower);
    Value product = g.mul(loc, g.mul(loc, g.dy(), b), power);
    g.add(0, "da", whereNonZero(g, loc, b, product));
  }
  if (g.needs(1)) {
    Location loc = g.at("db");
    // Zero if a is 0: a^b * log(a) would be 0 * -infinity.
    Value logarithm =
        LogOp::create(g.ops(), loc, getGradientType(a.getType()), a);
    Value product = g.mul(loc, g.mul(loc, g.dy(), op.getOutput()), logarithm);
    g.add(1, "db", whereNonZero(g, loc, a, product));
  }
}

// The gradient of a maximum or minimum goes to the chosen operand, or half to
// each operand if both are equal. The rule selects instead of multiplying by 0:
// an infinite gradient, as of sqrt(max(x, 0)) at 0, would become NaN.
template <typename OpTy, int direction>
static void gradChoice(OpTy op, GradientBuilder &g) {
  for (unsigned operand : {0u, 1u}) {
    if (!g.needs(operand))
      continue;
    StringRef suffix = operand == 0 ? "da" : "db";
    Location loc = g.at(suffix);
    Value own = op->getOperand(operand), other = op->getOperand(1 - operand);
    auto isLess = [&](Value a, Value b) -> Value {
      return LessOp::create(g.ops(), loc, direction > 0 ? a : b,
                            direction > 0 ? b : a);
    };
    Type type = g.dy().getType();
    Value zero = g.constant(loc, 0.0, g.dy());
    Value atBound = g.scale(loc, g.dy(), 0.5);
    if (auto share = op->template getAttrOfType<FloatAttr>(kClampsAttr))
      atBound = operand == 0 && share.getValueAsDouble() == 1.0 ? g.dy() : zero;
    Value rest =
        SelectOp::create(g.ops(), loc, type, isLess(own, other), zero, atBound);
    g.add(
        operand, suffix,
        SelectOp::create(g.ops(), loc, type, isLess(other, own), g.dy(), rest));
  }
}

// Returns the logarithm of a probability, but at least -100, the bound of
// PyTorch's binary cross entropy.
static Value boundedLog(GradientBuilder &g, Location loc, Value probability) {
  constexpr double kLeast = -100;
  Type type = probability.getType();
  Value log = LogOp::create(g.ops(), loc, type, probability);
  return MaximumOp::create(g.ops(), loc, type, log,
                           g.constant(loc, kLeast, log));
}

// The binary cross entropy y = -t * log(p) - (1 - t) * log(1 - p). Targets t
// need gradients too, because a model may compute its targets.
static void gradBCE(BCEOp op, GradientBuilder &g) {
  Value p = op.getLhs();
  if (g.needs(0))
    g.add(0, "dx",
          BCEGradOp::create(g.ops(), g.at("dx"), g.dy().getType(), g.dy(), p,
                            op.getRhs()));
  if (g.needs(1)) {
    Location loc = g.at("dt");
    Value rest =
        SubOp::create(g.ops(), loc, p.getType(), g.constant(loc, 1.0, p), p);
    Value difference =
        g.sub(loc, boundedLog(g, loc, rest), boundedLog(g, loc, p));
    g.add(1, "dt", g.mul(loc, g.dy(), difference));
  }
}

static void gradBCEWithLogits(BCEWithLogitsOp op, GradientBuilder &g) {
  if (g.needs(0))
    g.add(0, "dx",
          BCEWithLogitsGradOp::create(g.ops(), g.at("dx"), g.dy().getType(),
                                      g.dy(), op.getLhs(), op.getRhs()));
  if (g.needs(1)) {
    Location loc = g.at("dt");
    g.add(1, "dt", g.neg(loc, g.mul(loc, g.dy(), op.getLhs())));
  }
}

static void gradSelect(SelectOp op, GradientBuilder &g) {
  auto choose = [&](StringRef suffix, bool onTrue) -> Value {
    Value zero = g.constant(g.at(suffix), 0.0, g.dy());
    Value whenTrue = onTrue ? g.dy() : zero, whenFalse = onTrue ? zero : g.dy();
    return SelectOp::create(g.ops(), g.at(suffix), g.dy().getType(),
                            op.getCondition(), whenTrue, whenFalse);
  };
  if (g.needs(1))
    g.add(1, "da", choose("da", true));
  if (g.needs(2))
    g.add(2, "db", choose("db", false));
}

// The gradient of the input passes straight through the rounding. The zero
// point is a whole number and has no gradient.
static void gradFakeQuantize(FakeQuantizeOp op, GradientBuilder &g) {
  auto build = [&](auto tag, StringRef suffix) -> Value {
    return decltype(tag)::create(g.ops(), g.at(suffix), g.dy().getType(),
                                 g.dy(), op.getInput(), op.getScale(),
                                 op.getZeroPoint(), op.getLow(), op.getHigh());
  };
  if (g.needs(0))
    g.add(0, "dx", build(FakeQuantizeGradOp(), "dx"));
  if (g.needs(1))
    g.add(1, "dscale", build(FakeQuantizeScaleGradOp(), "dscale"));
}

void mpc::addElementwiseRules(GradientRules &rules) {
  // All ops of Formulas.def share the rule `gradFormula`.
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  rules.add(gradFormula<OP##Op>);
#include "compiler/Dialect/MPC/Formulas.def"
  // Rules of ops with one operand. `constantOperands` lists operands that get
  // no gradient.
  rules.add(gradNeg);
  rules.add(gradAbs);
  rules.add(gradSign);
  rules.add(gradRelu);
  rules.add(gradSigmoid);
  rules.add(gradTanh);
  rules.add(gradExp);
  rules.add(gradLog);
  rules.add(gradSqrt);
  rules.add(gradReciprocal);
  rules.add(gradClip);
  rules.add(gradCast);
  rules.add(gradFakeQuantize, /*constantOperands=*/{2});
  rules.add(gradDropout);
  rules.add(gradStopGradient, /*constantOperands=*/{0});
  // Rules of ops with two or three operands. `gradChoice<Op, 1>` gives the
  // gradient to the larger operand, `gradChoice<Op, -1>` to the smaller.
  rules.add(gradAdd);
  rules.add(gradMod);
  rules.add(gradSub);
  rules.add(gradMul);
  rules.add(gradDiv);
  rules.add(gradPow);
  rules.add(gradChoice<MaximumOp, 1>);
  rules.add(gradChoice<MinimumOp, -1>);
  rules.add(gradBCE);
  rules.add(gradBCEWithLogits);
  rules.add(gradSelect);
}
