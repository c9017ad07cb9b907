// The optimizers, with PyTorch's formulas and defaults. PyTorch lacks two,
// which follow their papers: LAMB (You et al. 2020), with bias correction, and
// Lion (Chen et al. 2023).
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Updates/Optimizers.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Differentiation/Updates/Muon.h"
#include "passes/Differentiation/Updates/UpdateArithmetic.h"

using namespace mlir;
using namespace mpc;
using llvm::APFloat;
using Values = SmallVector<Value>;

static constexpr llvm::StringLiteral kVelocitySuffix = ".velocity";

static Values buildSGD(OpBuilder &b, Location loc, const UpdateInputs &in,
                       const OptimizerSettings &s) {
  return {SGDOp::create(b, loc, in.param.getType(), in.param, in.grad,
                        in.learningRate, Value(), APFloat(*s.weightDecay))};
}

static Values buildMomentumOp(OpBuilder &b, Location loc,
                              const UpdateInputs &in,
                              const OptimizerSettings &s, bool nesterov) {
  assert(in.state.size() == 1 && "momentum keeps a velocity");
  Value velocity = in.state[0];
  auto op = MomentumOp::create(
      b, loc, TypeRange{in.param.getType(), velocity.getType()}, in.param,
      in.grad, velocity, in.learningRate, in.step, Value(),
      b.getF64FloatAttr(*s.momentum), b.getF64FloatAttr(1.0),
      b.getF64FloatAttr(*s.weightDecay), b.getBoolAttr(nesterov));
  return llvm::to_vector_of<Value>(op.getResults());
}

static Values buildMomentum(OpBuilder &b, Location loc, const UpdateInputs &in,
                            const OptimizerSettings &s) {
  return buildMomentumOp(b, loc, in, s, /*nesterov=*/false);
}

static Values buildNesterov(OpBuilder &b, Location loc, const UpdateInputs &in,
                            const OptimizerSettings &s) {
  return buildMomentumOp(b, loc, in, s, /*nesterov=*/true);
}

static Values buildAdamOp(OpBuilder &b, Location loc, const UpdateInputs &in,
                          const OptimizerSettings &s, Value learningRate,
                          DecayMode decayMode) {
  assert(in.state.size() == 2 && "Adam keeps two moments");
  Value m = in.state[0], v = in.state[1];
  auto op = AdamOp::create(
      b, loc, TypeRange{in.param.getType(), m.getType(), v.getType()}, in.param,
      in.grad, m, v, learningRate, in.nextStep, Value(),
      b.getF64FloatAttr(s.beta1), b.getF64FloatAttr(*s.beta2),
      b.getF64FloatAttr(*s.epsilon), b.getF64FloatAttr(*s.weightDecay),
      DecayModeAttr::get(b.getContext(), decayMode),
      BiasCorrectionAttr::get(b.getContext(), BiasCorrection::Torch));
  return llvm::to_vector_of<Value>(op.getResults());
}

static Values buildAdam(OpBuilder &b, Location loc, const UpdateInputs &in,
                        const OptimizerSettings &s) {
  return buildAdamOp(b, loc, in, s, in.learningRate, DecayMode::L2);
}

static Values buildAdamW(OpBuilder &b, Location loc, const UpdateInputs &in,
                         const OptimizerSettings &s) {
  return buildAdamOp(b, loc, in, s, in.learningRate, DecayMode::Decoupled);
}

static Values buildAdagrad(OpBuilder &b, Location loc, const UpdateInputs &in,
                           const OptimizerSettings &s) {
  assert(in.state.size() == 1 && "Adagrad keeps a sum of squares");
  Value h = in.state[0];
  auto op = AdagradOp::create(
      b, loc, TypeRange{in.param.getType(), h.getType()}, in.param, in.grad, h,
      in.learningRate, in.step, Value(), b.getF64FloatAttr(*s.epsilon),
      b.getF64FloatAttr(0.0), b.getF64FloatAttr(*s.weightDecay));
  return llvm::to_vector_of<Value>(op.getResults());
}

static Values buildRMSprop(OpBuilder &b, Location loc, const UpdateInputs &in,
                           const OptimizerSettings &s) {
  assert(in.state.size() == 1u + s.centered + (*s.momentum != 0) &&
         "RMSprop keeps the state that keepsRMSprop names");
  SmallVector<Type> types(1 + in.state.size(), in.grad.getType());
  types[0] = in.param.getType();
  auto op = RMSpropOp::create(
      b, loc, types, in.param, in.grad, in.state, in.learningRate, Value(),
      b.getF64FloatAttr(s.alpha), b.getF64FloatAttr(*s.epsilon),
      b.getF64FloatAttr(*s.momentum), b.getF64FloatAttr(*s.weightDecay),
      b.getBoolAttr(s.centered));
  return llvm::to_vector_of<Value>(op.getResults());
}

static bool keepsRMSprop(StringRef suffix, const OptimizerSettings &s) {
  if (suffix == kFirstMomentSuffix)
    return s.centered;
  return suffix == kSecondMomentSuffix || *s.momentum != 0;
}

//===----------------------------------------------------------------------===//
// LAMB and Lion
//===----------------------------------------------------------------------===//

// Returns `value` where `condition` is not zero, else 1.
static Value orOne(OpBuilder &b, Location loc, Value condition, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  Value flag =
      mpc::CastOp::create(b, loc, type.clone(b.getI1Type()), condition);
  Value one = createScalar(b, loc, 1.0, type.getElementType());
  return SelectOp::create(b, loc, type, flag, value, one);
}

// LAMB scales AdamW's step. Let r be the change of the parameter p by AdamW
// with learning rate 1. LAMB changes p by lr * |p| / |r| * r; the ratio is 1 if
// |p| or |r| is 0. In a skipped step, the Adam op changes nothing: r is 0, and
// so is LAMB's change.
static Values buildLAMB(OpBuilder &b, Location loc, const UpdateInputs &in,
                        const OptimizerSettings &s) {
  Type element =
      cast<RankedTensorType>(in.learningRate.getType()).getElementType();
  Value unit = createScalar(b, loc, 1.0, element);
  Values result = buildAdamOp(b, loc, in, s, unit, DecayMode::Decoupled);
  Type type = in.param.getType();
  Value move = SubOp::create(b, loc, type, in.param, result[0]);
  Value size = normOf(b, loc, in.param), length = normOf(b, loc, move);
  Value ratio = DivOp::create(b, loc, size.getType(), size, length);
  ratio = orOne(b, loc, size, orOne(b, loc, length, ratio));
  Value rate = MulOp::create(b, loc, ratio.getType(), ratio, in.learningRate);
  Value scaled = MulOp::create(b, loc, type, move, rate);
  result[0] = SubOp::create(b, loc, type, in.param, scaled);
  return result;
}

// Lion moves every element by the learning rate, in the direction of the sign
// of an average of m and the gradient. An SGD op with the signs as gradient
// makes this step, with decoupled weight decay:
//   p' = p - lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * p)
//   m' = beta2 * m + (1 - beta2) * g
static Values buildLion(OpBuilder &b, Location loc, const UpdateInputs &in,
                        const OptimizerSettings &s) {
  assert(in.state.size() == 1 && "Lion keeps a moment");
  Value m = in.state[0];
  Value direction = SignOp::create(b, loc, m.getType(),
                                   averageOf(b, loc, m, in.grad, s.beta1));
  UpdateInputs signs = in;
  signs.grad = direction;
  Values result = buildSGD(b, loc, signs, s);
  result.push_back(averageOf(b, loc, m, in.grad, *s.beta2));
  return result;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kMoments[] = {kFirstMomentSuffix,
                                                   kSecondMomentSuffix};
static constexpr llvm::StringLiteral kMoment[] = {kFirstMomentSuffix};
static constexpr llvm::StringLiteral kVelocity[] = {kVelocitySuffix};
static constexpr llvm::StringLiteral kSquares[] = {".h"};
static constexpr llvm::StringLiteral kRMSprop[] = {
    kSecondMomentSuffix, kFirstMomentSuffix, kVelocitySuffix};

// Defaults: epsilon, weight decay, momentum, beta2.
static const Optimizer kOptimizers[] = {
    {OptimizerKind::SGD, {}, {}, buildSGD},
    {OptimizerKind::Momentum, kVelocity, {}, buildMomentum},
    {OptimizerKind::Nesterov, kVelocity, {}, buildNesterov},
    {OptimizerKind::Adam, kMoments, {1e-8}, buildAdam},
    {OptimizerKind::AdamW, kMoments, {1e-8, 0.01}, buildAdamW},
    {OptimizerKind::Adagrad, kSquares, {1e-10}, buildAdagrad},
    {OptimizerKind::RMSprop,
     kRMSprop,
     {1e-8, 0.0, 0.0},
     buildRMSprop,
     keepsRMSprop},
    {OptimizerKind::LAMB, kMoments, {1e-6, 0.01}, buildLAMB},
    {OptimizerKind::Lion, kMoment, {0.0, 0.0, 0.9, 0.99}, buildLion},
    {OptimizerKind::Muon, kVelocity, {1e-7, 0.1, 0.95}, buildMuon},
};

const Optimizer &mpc::getOptimizer(OptimizerKind kind) {
  return *llvm::find_if(kOptimizers, [&](const Optimizer &optimizer) {
    return optimizer.kind == kind;
  });
}

OptimizerSettings mpc::withDefaults(OptimizerSettings settings) {
  const OptimizerDefaults &defaults = getOptimizer(settings.kind).defaults;
  settings.epsilon = settings.epsilon.value_or(defaults.epsilon);
  settings.weightDecay = settings.weightDecay.value_or(defaults.weightDecay);
  settings.momentum = settings.momentum.value_or(defaults.momentum);
  settings.beta2 = settings.beta2.value_or(defaults.beta2);
  return settings;
}

SmallVector<StringRef>
Optimizer::getState(const OptimizerSettings &settings) const {
  SmallVector<StringRef> kept;
  llvm::copy_if(state, std::back_inserter(kept), [&](StringRef suffix) {
    return !keeps || keeps(suffix, settings);
  });
  return kept;
}
