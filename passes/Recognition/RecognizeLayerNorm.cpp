// Recognises layer normalisation written as single ops, as exporters of opsets
// before 17 do:
//
//   (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale + bias
//
// Also recognises Keras's form, which multiplies x before subtracting the mean:
//
//   x * factor + (bias - mean(x) * factor), factor = scale / sqrt(...)
//
// Ops that divide the variance by n - 1 stay, since layer normalisation divides
// by n.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Match.h"
#include "passes/Recognition/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZELAYERNORMPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// The operands of a layer normalisation. Scale and bias may be null.
struct LayerNorm {
  Value input, scale, bias;
  ArrayRef<int64_t> axes;
  double epsilon;
};
} // namespace

/// Returns the mean op if `value` is x - mean(x); null otherwise.
static ReduceMeanOp matchCentred(Value value, Match &match) {
  Match attempt = match;
  auto centred = attempt.take<SubOp>(value);
  auto mean = centred ? matchMean(centred.getRhs(), attempt) : ReduceMeanOp();
  if (!mean || mean.getInput() != centred.getLhs())
    return {};
  match = attempt;
  return mean;
}

/// Returns the op mean(x) if `value` is the variance mean((x - mean(x))^2),
/// with equal axes for both means; null otherwise.
static ReduceMeanOp matchVariance(Value value, Match &match) {
  Match attempt = match;
  ReduceMeanOp variance = matchMean(value, attempt);
  Value centred =
      variance ? matchSquare(variance.getInput(), attempt) : Value();
  ReduceMeanOp mean = centred ? matchCentred(centred, attempt) : ReduceMeanOp();
  if (!mean || mean.getAxes() != variance.getAxes())
    return {};
  match = attempt;
  return mean;
}

/// True if two ops compute the same mean. Exporters may write a mean twice.
static bool isSameMean(ReduceMeanOp a, ReduceMeanOp b) {
  return a.getInput() == b.getInput() && a.getAxes() == b.getAxes();
}

/// Matches `op` = (x - mean) / sqrt(variance + epsilon). A scale and a bias may
/// follow, and become the new root.
static std::optional<LayerNorm> matchSpelledOut(Operation *op, Match &match) {
  // The mean in the numerator must be the mean in the variance.
  auto quotient = matchOverRoot(op, match);
  if (!quotient)
    return std::nullopt;
  ReduceMeanOp mean = matchVariance(quotient->square, match);
  ReduceMeanOp taken =
      mean ? matchCentred(quotient->numerator, match) : ReduceMeanOp();
  if (!taken || !isSameMean(mean, taken))
    return std::nullopt;
  // Match a product with a scale, then a sum with a bias, if there are any.
  LayerNorm norm{mean.getInput(), {}, {}, mean.getAxes(), quotient->epsilon};
  auto matchNext = [&](auto kind) -> Value {
    Match attempt = match;
    Value before = match.getRoot()->getResult(0);
    auto next = attempt.extend<decltype(kind)>();
    Value operand =
        next ? matchBroadcast(next, before, norm.input, match) : Value();
    if (operand)
      match = attempt;
    return operand;
  };
  norm.scale = matchNext(MulOp());
  norm.bias = matchNext(AddOp());
  return norm;
}

/// Returns the factor if `value` is x * factor; null otherwise.
static Value matchFactor(Value value, Value x, Match &match) {
  auto product = match.take<MulOp>(value);
  if (!product || (product.getLhs() != x && product.getRhs() != x))
    return {};
  return product.getLhs() == x ? product.getRhs() : product.getLhs();
}

/// Matches factor = scale / sqrt(variance(x) + epsilon). The scale may be
/// absent. The returned LayerNorm has no bias yet.
static std::optional<LayerNorm> matchScaledInverse(Value factor, Match &match) {
  Value scale;
  Value radicand = matchInverseRoot(factor, match);
  auto product = radicand ? MulOp() : match.take<MulOp>(factor);
  for (unsigned i : {0, 1}) {
    if (radicand || !product)
      break;
    scale = product->getOperand(i);
    radicand = matchInverseRoot(product->getOperand(1 - i), match);
  }
  auto sum = radicand ? matchAddedNumber(radicand, match) : std::nullopt;
  ReduceMeanOp mean = sum && sum->second >= 0 ? matchVariance(sum->first, match)
                                              : ReduceMeanOp();
  if (!mean)
    return std::nullopt;
  return LayerNorm{mean.getInput(), scale, {}, mean.getAxes(), sum->second};
}

/// Matches `sum` = x * factor + (bias - mean * factor).
static std::optional<LayerNorm> matchScaledFirst(AddOp sum, Match &match) {
  // Try both orders of the operands of sums and products.
  for (unsigned i : {0, 1}) {
    Match attempt = match;
    auto shift = attempt.take<SubOp>(sum->getOperand(1 - i));
    auto moved = shift ? attempt.take<MulOp>(shift.getRhs()) : MulOp();
    if (!moved)
      continue;
    for (unsigned j : {0, 1}) {
      Match inner = attempt;
      ReduceMeanOp mean = matchMean(moved->getOperand(j), inner);
      Value factor =
          mean ? matchFactor(sum->getOperand(i), mean.getInput(), inner)
               : Value();
      if (!factor || factor != moved->getOperand(1 - j))
        continue;
      // The factor must be scale / sqrt(variance + epsilon) of the same x and
      // axes.
      auto norm = matchScaledInverse(factor, inner);
      if (!norm || norm->input != mean.getInput() ||
          norm->axes != mean.getAxes())
        continue;
      norm->bias = shift.getLhs();
      match = inner;
      return norm;
    }
  }
  return std::nullopt;
}

/// True if scale and bias broadcast to the input and come from outside the
/// match.
static bool hasPlainOperands(const LayerNorm &norm, const Match &match) {
  auto type = typeOf(norm.input);
  for (Value operand : {norm.scale, norm.bias}) {
    if (!operand)
      continue;
    auto whole = broadcastShapes(shapeOf(operand), type.getShape());
    if (match.contains(operand) ||
        elementOf(operand) != type.getElementType() || failed(whole) ||
        ArrayRef<int64_t>(*whole) != type.getShape())
      return false;
  }
  return match.getRoot()->getResult(0).getType() == type;
}

namespace {
struct RecognizeLayerNorm : AnyOpPattern {
  using AnyOpPattern::AnyOpPattern;
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeLayerNormPass
    : public mpc::impl::RecognizeLayerNormPassBase<RecognizeLayerNormPass> {
  void runOnOperation() override {
    if (failed(applyRecognizers<RecognizeLayerNorm>(getOperation())))
      signalPassFailure();
  }
};
} // namespace

LogicalResult
RecognizeLayerNorm::matchAndRewrite(Operation *op,
                                    PatternRewriter &rewriter) const {
  if (!isa<DivOp, MulOp, AddOp>(op))
    return rewriter.notifyMatchFailure(
        op, "a layer norm ends with div, mul or add");
  Match match(op);
  auto sum = dyn_cast<AddOp>(op);
  auto norm = sum ? matchScaledFirst(sum, match) : matchSpelledOut(op, match);
  if (!norm)
    return rewriter.notifyMatchFailure(op, "expected a formula of layer norm");
  if (!match.isClosed() || !hasPlainOperands(*norm, match))
    return rewriter.notifyMatchFailure(
        op, "other ops read inner values of the formula, or scale or bias do "
            "not fit the input");
  rewriter.setInsertionPoint(match.getRoot());
  // mpc.layer_norm needs a scale: 1 if the model has none.
  auto type = typeOf(norm->input);
  Value scale = norm->scale;
  if (!scale)
    scale = createOne(match, type.getElementType(), rewriter);
  // The statistics that mpc.layer_norm returns keep the reduced axes with size
  // 1.
  auto statistic = llvm::to_vector(type.getShape());
  for (int64_t axis : norm->axes)
    statistic[axis] = 1;
  auto layerNorm = LayerNormOp::create(
      rewriter, match.getLocation(),
      TypeRange{type, type.clone(statistic), type.clone(statistic)},
      norm->input, scale, norm->bias, rewriter.getDenseI64ArrayAttr(norm->axes),
      rewriter.getF64FloatAttr(norm->epsilon));
  match.replace(layerNorm, rewriter);
  return success();
}
