// Formulas of the optimizer steps and of the loss-scale state.
//
// Values that depend on scalars alone (bias corrections, step sizes) are
// computed in f64: 1 - 0.999^t loses four digits in f32. They are computed
// once, outside the loop over elements, so f64 costs little.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// Returns `updated` if `apply` is null or true, otherwise `old`.
static Value guard(Lanes &l, Value apply, Value updated, Value old) {
  return apply ? l.select(apply, updated, old) : updated;
}

static Value toF64(Lanes &l, Value value) {
  FloatType f64 = l.getBuilder().getF64Type();
  if (isa<FloatType>(getElementTypeOrSelf(value.getType())))
    return l.convert(value, f64);
  return arith::SIToFPOp::create(l.getBuilder(), Lanes::typeLike(f64, value),
                                 value);
}

static Value fromF64(Lanes &l, Value value) {
  return l.convert(value, l.getComputeType());
}

static Value c64(Lanes &l, double value) {
  return l.constant(l.getBuilder().getF64Type(), value);
}

static double toDouble(const APFloat &value) { return value.convertToDouble(); }

/// Returns the gradient with L2 regularization: g + decay * p.
static Value withL2(Lanes &l, Value grad, Value param, double decay) {
  if (decay == 0)
    return grad;
  return l.add(grad, l.mul(l.constant(decay), param));
}

static Value emitIncrement(Lanes &l, IncrementOp, IncrementOp::Adaptor in) {
  Value counter = in.getCounter();
  Value one = l.integer(getElementTypeOrSelf(counter.getType()), 1);
  return guard(l, in.getApply(), l.addInt(counter, one), counter);
}

static Value emitSGD(Lanes &l, SGDOp op, SGDOp::Adaptor in) {
  Value p = in.getParam();
  Value g = withL2(l, in.getGrad(), p, toDouble(op.getWeightDecay()));
  return guard(l, in.getApply(), l.sub(p, l.mul(in.getLr(), g)), p);
}

static SmallVector<Value> emitMomentum(Lanes &l, MomentumOp op,
                                       MomentumOp::Adaptor in) {
  Value p = in.getParam(), v = in.getVelocity();
  Value g = withL2(l, in.getGrad(), p, toDouble(op.getWeightDecay()));
  Value momentum = l.constant(toDouble(op.getMomentum()));
  Value zero = l.integer(getElementTypeOrSelf(in.getStep().getType()), 0);
  Value later = l.compare(arith::CmpIPredicate::sgt, in.getStep(), zero);
  Value beta =
      l.select(later, l.constant(toDouble(op.getBeta())), l.constant(1));
  Value newV = l.add(l.mul(momentum, v), l.mul(beta, g));
  Value direction = op.getNesterov() ? l.add(g, l.mul(momentum, newV)) : newV;
  Value newP = l.sub(p, l.mul(in.getLr(), direction));
  return {guard(l, in.getApply(), newP, p), guard(l, in.getApply(), newV, v)};
}

namespace {
/// The two scalars of Adam's update: p' = p - size * m' / (sqrt(v') * root +
/// epsilon). A null root means 1.
struct AdamScalars {
  Value size, root;
};
} // namespace

static AdamScalars adamScalars(Lanes &l, AdamOp op, AdamOp::Adaptor in) {
  BiasCorrection correction = op.getBiasCorrection();
  if (correction == BiasCorrection::None)
    return {in.getLr(), nullptr};
  Value t = toF64(l, in.getStep()), lr = toF64(l, in.getLr());
  Value one = c64(l, 1);
  // Every thread of a GPU computes 1 - beta^t, so let the power be approximate
  // (afn). The approximation loses digits only if beta^t is far from 1, and
  // then the difference does not need these digits.
  auto correct = [&](const APFloat &beta) {
    return l.sub(one,
                 l.pow(c64(l, toDouble(beta)), t, arith::FastMathFlags::afn));
  };
  Value c1 = correct(op.getBeta1()), c2 = correct(op.getBeta2());
  if (correction == BiasCorrection::Torch)
    return {fromF64(l, l.div(lr, c1)), fromF64(l, l.div(one, l.sqrt(c2)))};
  Value factor = l.div(l.sqrt(c2), c1);
  Value isFirst = l.compare(arith::CmpFPredicate::OEQ, t, c64(l, 0));
  return {fromF64(l, l.mul(lr, l.select(isFirst, one, factor))), nullptr};
}

static SmallVector<Value> emitAdam(Lanes &l, AdamOp op, AdamOp::Adaptor in) {
  Value p = in.getParam(), g = in.getGrad(), m = in.getM(), v = in.getV();
  double decay = toDouble(op.getWeightDecay());
  double beta1 = toDouble(op.getBeta1()), beta2 = toDouble(op.getBeta2());
  DecayMode mode = op.getDecayMode();
  // Returns 1 - lr * decay, the factor of decoupled decay.
  auto shrink = [&] {
    Value product = l.mul(toF64(l, in.getLr()), c64(l, decay));
    return fromF64(l, l.sub(c64(l, 1), product));
  };

  if (mode == DecayMode::L2)
    g = withL2(l, g, p, decay);
  Value base = p;
  if (mode == DecayMode::Decoupled && decay != 0)
    base = l.mul(p, shrink());
  // m' = beta1 m + (1 - beta1) g, v' = beta2 v + (1 - beta2) g^2.
  Value newM =
      l.add(l.mul(l.constant(beta1), m), l.mul(l.constant(1 - beta1), g));
  Value newV = l.add(l.mul(l.constant(beta2), v),
                     l.mul(l.constant(1 - beta2), l.mul(g, g)));
  AdamScalars scalars = adamScalars(l, op, in);
  Value root = l.sqrt(newV);
  if (scalars.root)
    root = l.mul(root, scalars.root);
  Value denominator = l.add(root, l.constant(toDouble(op.getEpsilon())));
  // p' = p - size m' / (root + epsilon). `size` and `root` include the bias
  // correction.
  Value newP = l.sub(base, l.mul(scalars.size, l.div(newM, denominator)));
  if (mode == DecayMode::DecoupledAfter && decay != 0)
    newP = l.mul(newP, shrink());
  if (mode == DecayMode::Post && decay != 0)
    newP = l.mul(newP, l.constant(1 - decay));

  // `apply` is false if gradients have overflowed. The step then leaves the
  // whole state unchanged.
  Value apply = in.getApply();
  return {guard(l, apply, newP, p), guard(l, apply, newM, m),
          guard(l, apply, newV, v)};
}

static SmallVector<Value> emitAdagrad(Lanes &l, AdagradOp op,
                                      AdagradOp::Adaptor in) {
  Value p = in.getParam(), h = in.getH();
  Value g = withL2(l, in.getGrad(), p, toDouble(op.getWeightDecay()));
  Value size = toF64(l, in.getLr());
  if (double lrDecay = toDouble(op.getLrDecay()); lrDecay != 0)
    size = l.div(
        size, l.add(c64(l, 1), l.mul(toF64(l, in.getStep()), c64(l, lrDecay))));
  Value newH = l.add(h, l.mul(g, g));
  Value denominator =
      l.add(l.sqrt(newH), l.constant(toDouble(op.getEpsilon())));
  Value newP = l.sub(p, l.mul(fromF64(l, size), l.div(g, denominator)));
  return {guard(l, in.getApply(), newP, p), guard(l, in.getApply(), newH, h)};
}

// Emits a step of RMSprop. If centered, v' - m' * m' is a variance, which
// rounding can make negative. Clamp the variance at 0: PyTorch does not, and
// its square root becomes NaN.
static SmallVector<Value> emitRMSprop(Lanes &l, RMSpropOp op,
                                      RMSpropOp::Adaptor in) {
  Value p = in.getParam(), apply = in.getApply();
  ValueRange state = in.getState();
  Value g = withL2(l, in.getGrad(), p, toDouble(op.getWeightDecay()));
  const double alpha = toDouble(op.getAlpha());
  // Returns the moving average of `old` and `next`.
  auto mean = [&](Value old, Value next) {
    return l.add(l.mul(l.constant(alpha), old),
                 l.mul(l.constant(1 - alpha), next));
  };
  // v' is a mean of squares. If centered, subtract the square of the mean.
  SmallVector<Value> next = {mean(state[0], l.mul(g, g))};
  Value square = next[0];
  if (op.getCentered()) {
    next.push_back(mean(state[1], g));
    square = l.maximum(l.sub(square, l.mul(next[1], next[1])), l.constant(0));
  }
  Value move =
      l.div(g, l.add(l.sqrt(square), l.constant(toDouble(op.getEpsilon()))));
  // With momentum, p moves by a decaying sum of all moves.
  if (double momentum = toDouble(op.getMomentum()); momentum != 0) {
    move = l.add(l.mul(l.constant(momentum), state.back()), move);
    next.push_back(move);
  }
  SmallVector<Value> results = {
      guard(l, apply, l.sub(p, l.mul(in.getLr(), move)), p)};
  for (auto [updated, old] : llvm::zip_equal(next, state))
    results.push_back(guard(l, apply, updated, old));
  return results;
}

static Value emitNonFinite(Lanes &l, amp::NonFiniteOp,
                           amp::NonFiniteOp::Adaptor in) {
  Value infinity = l.constant(std::numeric_limits<double>::infinity());
  // The comparison is also false for NaN, which thus counts as not finite.
  Value finite =
      l.compare(arith::CmpFPredicate::OLT, l.abs(in.getInput()), infinity);
  return l.select(finite, l.constant(0), l.constant(1));
}

static SmallVector<Value> emitUpdateScale(Lanes &l, amp::UpdateScaleOp op,
                                          amp::UpdateScaleOp::Adaptor in) {
  Value scale = in.getScale(), good = in.getGoodSteps();
  Value left = in.getHysteresisLeft(), finite = in.getFinite();
  Type countType = getElementTypeOrSelf(good.getType());
  Type leftType = getElementTypeOrSelf(left.getType());

  // If gradients are finite, count one more good step. After `growth_interval`
  // good steps, raise the scale and set the hysteresis counter to its full
  // value.
  Value more = l.addInt(good, l.integer(countType, 1));
  Value grows = l.compare(arith::CmpIPredicate::sge, more,
                          l.integer(countType, op.getGrowthInterval()));
  Value grown =
      l.minimum(l.mul(scale, l.constant(toDouble(op.getGrowthFactor()))),
                l.constant(toDouble(op.getMaxScale())));
  Value zero = l.integer(countType, 0);
  Value full = l.integer(leftType, op.getHysteresis());

  // If gradients are not finite, decrement the hysteresis counter, and lower
  // the scale at zero. The counter stays at zero until the scale is raised, so
  // every further overflow lowers the scale.
  Value leftZero = l.integer(leftType, 0);
  Value fewer = arith::MaxSIOp::create(
      l.getBuilder(), l.addInt(left, l.integer(leftType, -1)), leftZero);
  Value backsOff = l.compare(arith::CmpIPredicate::eq, fewer, leftZero);
  Value backed =
      l.maximum(l.mul(scale, l.constant(toDouble(op.getBackoffFactor()))),
                l.constant(toDouble(op.getMinScale())));

  return {l.select(finite, l.select(grows, grown, scale),
                   l.select(backsOff, backed, scale)),
          l.select(finite, l.select(grows, zero, more), zero),
          l.select(finite, l.select(grows, full, left), fewer)};
}

void codegen::addOptimizerFormulas(ElementwiseTable &table) {
  table.add<IncrementOp>(emitIncrement);
  table.add<SGDOp>(emitSGD);
  table.add<MomentumOp>(emitMomentum);
  table.add<AdamOp>(emitAdam);
  table.add<AdagradOp>(emitAdagrad);
  table.add<RMSpropOp>(emitRMSprop);
  table.add<amp::ScaleLossOp>(
      [](Lanes &l, amp::ScaleLossOp, amp::ScaleLossOp::Adaptor in) {
        return l.mul(in.getSeed(), in.getScale());
      });
  table.add<amp::UnscaleOp>(
      [](Lanes &l, amp::UnscaleOp, amp::UnscaleOp::Adaptor in) {
        return l.div(in.getGrad(), in.getScale());
      });
  table.add<amp::NonFiniteOp>(emitNonFinite);
  table.add<amp::UpdateScaleOp>(emitUpdateScale);
}
