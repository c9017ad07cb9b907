// Builds the focal losses and the dice losses of elementwise ops, reductions
// and the cross entropies, whose gradients and types the other passes know.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/LossBuilder.h"

#include "compiler/Support/ExitCode.h"

using namespace mlir;
using namespace mpc;

static constexpr double kFocalGamma = 2, kFocalAlpha = 0.25;
static constexpr double kDiceSmooth = 1e-5;

// Casts `value` to elements of type `element`, since the losses are computed in
// fp32 at least.
static Value castToLoss(OpBuilder &builder, Location loc, Value value,
                        Type element) {
  auto type = typeOf(value);
  if (type.getElementType() == element)
    return value;
  return mpc::CastOp::create(builder, loc, type.clone(element), value);
}

Value LossBuilder::raiseToGamma(Value base) {
  const double gamma = recipe.focalGamma.value_or(kFocalGamma);
  Type type = base.getType();
  if (gamma == 0)
    return {};
  if (gamma == 1)
    return base;
  if (gamma == 2)
    return MulOp::create(builder, at("loss.power"), type, base, base);
  // For a gamma below 1, the slope at 0 is infinite. A bound of the size of the
  // smallest normal float makes it finite, and ends the gradient there.
  constexpr double smallest = 0x1p-126;
  Value bounded =
      ClipOp::create(builder, at("loss.base"), type, base,
                     builder.getF64FloatAttr(smallest), FloatAttr());
  return PowOp::create(builder, at("loss.power"), type, bounded,
                       scalar(gamma, elementOf(base)));
}

//===----------------------------------------------------------------------===//
// Focal losses
//===----------------------------------------------------------------------===//

// Computes the focal loss of Lin et al. 2017 for each label: w * (1 - p)^gamma
// * -log(p), where p is the probability of the label's class and w the weight
// of the class.
Loss LossBuilder::buildFocal(Value rows, Value labels,
                             ArrayRef<int64_t> labelShape) {
  Type element = lossElementType(rows);
  auto type = typeOf(labels).clone(element);
  const bool isMean = !recipe.sumsLoss() && recipe.weighsLabels();
  Value weights;
  if (isMean || classWeights)
    weights = buildLabelWeights(rows, labels);
  IntegerAttr ignored;
  if (recipe.ignoreIndex)
    ignored = builder.getI64IntegerAttr(*recipe.ignoreIndex);
  // Without class weights, the cross entropy is -log(p). It is 0 for ignored
  // labels.
  Operation *op = SoftmaxCrossEntropyLossOp::create(
      builder, at("loss.entropy"), TypeRange{type, typeOf(rows).clone(element)},
      rows, labels, Value(),
      LossReductionAttr::get(builder.getContext(), LossReduction::None),
      ignored, UnitAttr(), builder.getF64FloatAttr(0));
  Value entropy = op->getResult(0), loss = entropy;
  Value p =
      ExpOp::create(builder, at("loss.p"), type,
                    NegOp::create(builder, at("loss.log"), type, entropy));
  Value rest =
      SubOp::create(builder, at("loss.rest"), type, scalar(1.0, element), p);
  if (Value factor = raiseToGamma(rest))
    loss = MulOp::create(builder, at("loss"), type, factor, entropy);
  if (classWeights)
    loss = MulOp::create(builder, at("loss.weighted"), type, loss, weights);
  return reduceLabels(loss, op, isMean ? weights : Value(), labelShape);
}

// Computes torchvision's sigmoid_focal_loss for each element: a *
// (1 - p)^gamma * -log(p), where p is the probability of the target, and a is
// alpha for positive targets and 1 - alpha for negative ones.
Value LossBuilder::buildSigmoidFocal(Value output, Value target) {
  auto type = typeOf(target);
  Type element = type.getElementType();
  auto multiply = [&](StringRef name, Value a, Value b) -> Value {
    return MulOp::create(builder, at(name), type, a, b);
  };
  Value entropy = BCEWithLogitsOp::create(builder, at("loss.entropy"), type,
                                          output, target);
  Value x = castToLoss(builder, at("loss.logits"), output, element);
  Value isNo =
      SubOp::create(builder, at("loss.no"), type, scalar(1.0, element), target);
  // The probabilities of 1 and of 0. The difference 1 - p would lose the digits
  // of a small probability of 0.
  Value yes = SigmoidOp::create(builder, at("loss.p"), type, x);
  Value no =
      SigmoidOp::create(builder, at("loss.q"), type,
                        NegOp::create(builder, at("loss.minus"), type, x));
  Value rest = AddOp::create(builder, at("loss.rest"), type,
                             multiply("loss.rest", yes, isNo),
                             multiply("loss.rest", no, target));
  Value loss = entropy;
  if (Value factor = raiseToGamma(rest))
    loss = multiply("loss", factor, loss);
  const double alpha = recipe.focalAlpha.value_or(kFocalAlpha);
  if (alpha == -1)
    return loss;
  Value weight =
      AddOp::create(builder, at("loss.alpha"), type,
                    multiply("loss.alpha", target, scalar(alpha, element)),
                    multiply("loss.alpha", isNo, scalar(1 - alpha, element)));
  return multiply("loss.weighted", weight, loss);
}

//===----------------------------------------------------------------------===//
// Dice losses
//===----------------------------------------------------------------------===//

Value LossBuilder::buildDiceOf(Value p, Value t, ArrayRef<int64_t> axes) {
  auto type = typeOf(p);
  Type element = type.getElementType();
  Shape shape;
  for (int64_t axis = 0; axis < type.getRank(); ++axis)
    if (!llvm::is_contained(axes, axis))
      shape.push_back(type.getDimSize(axis));
  auto each = type.clone(shape);
  auto sumUp = [&](Value value) -> Value {
    return ReduceSumOp::create(builder, at("loss.sum"), each, value, axes,
                               false);
  };
  Value smooth = scalar(recipe.diceSmooth.value_or(kDiceSmooth), element);
  auto addSmooth = [&](Value value) -> Value {
    return AddOp::create(builder, at("loss.smooth"), each, value, smooth);
  };
  Value both = sumUp(MulOp::create(builder, at("loss.both"), type, p, t));
  Value all = sumUp(AddOp::create(builder, at("loss.all"), type, p, t));
  Value twice =
      MulOp::create(builder, at("loss.both"), each, both, scalar(2.0, element));
  Value dice = DivOp::create(builder, at("loss.dice"), each, addSmooth(twice),
                             addSmooth(all));
  return SubOp::create(builder, at("loss"), each, scalar(1.0, element), dice);
}

Loss LossBuilder::reduceDice(Value losses, ArrayRef<double> weights) {
  auto type = typeOf(losses);
  Type element = type.getElementType();
  const bool isSum = recipe.sumsLoss();
  Loss loss;
  if (type.getRank() == 1) {
    loss.perSample = losses;
  } else if (weights.empty()) {
    loss.perSample =
        isSum ? sum(losses, 1, "loss.sample") : mean(losses, 1, "loss.sample");
  } else {
    // A mean divides by the sum of the weights.
    double divisor = 0;
    for (double weight : weights)
      divisor += isSum ? 0 : weight;
    SmallVector<double> scaled(weights);
    for (double &weight : scaled)
      weight /= isSum ? 1 : divisor;
    Value product =
        MulOp::create(builder, at("loss.weighted"), type, losses,
                      buildConstant(scaled, {type.getDimSize(1)}, element));
    loss.perSample = sum(product, 1, "loss.sample");
  }
  loss.total = isSum ? sum(loss.perSample, 0, "loss.sum")
                     : mean(loss.perSample, 0, "loss.mean");
  return loss;
}

// Computes the dice loss of each sample and class, where p are the
// probabilities of the classes and t the labels, one-hot. Ignored labels count
// in no sum.
Loss LossBuilder::buildDice(Value rows, Value labels,
                            ArrayRef<int64_t> labelShape) {
  auto type = typeOf(rows);
  Type element = lossElementType(rows);
  const int64_t classes = type.getDimSize(1), samples = labelShape.front();
  // `rows` may have samples and positions on one axis: [samples * outer,
  // classes, inner...].
  const int64_t outer = type.getDimSize(0) / samples;
  const int64_t inner = type.getNumElements() / (type.getDimSize(0) * classes);
  auto whole = RankedTensorType::get({samples, outer, classes, inner}, element);
  Value p = SoftmaxOp::create(builder, at("loss.p"), type.clone(element), rows,
                              /*axis=*/1);
  p = reshape(p, whole.getShape(), "loss.p");
  Value positions = reshape(labels, {samples, outer, inner}, "loss.labels");
  Value t = OneHotOp::create(builder, at("loss.hot"), whole, positions,
                             /*axis=*/2, classes);
  // The weights are 1, or 0 for ignored labels. They are built even if no label
  // is ignored: the op tells the range of the labels, which the runtime checks.
  classWeights = {};
  Value counts = reshape(buildLabelWeights(rows, labels),
                         {samples, outer, 1, inner}, "loss.counts");
  p = MulOp::create(builder, at("loss.p"), whole, p, counts);
  if (recipe.ignoreIndex)
    t = MulOp::create(builder, at("loss.hot"), whole, t, counts);
  Loss loss = reduceDice(buildDiceOf(p, t, {1, 3}), recipe.classWeights);
  loss.scores = rows;
  loss.labels = labels;
  return loss;
}

// Computes the dice loss of each sample and channel. Axis 1 has the channels,
// unless the output has one row of elements per sample.
FailureOr<Loss> LossBuilder::buildSigmoidDice(Value output, Value target) {
  auto type = typeOf(target);
  const int64_t rank = type.getRank();
  if (rank < 2)
    return withExitCode(mlir::emitError(output.getLoc()),
                        ExitCode::InvalidInput)
           << "expected logits of shape [batch, ...] for sigmoid_dice, which "
              "compares the elements of a sample, found "
           << printShape(type.getShape());
  Value x =
      castToLoss(builder, at("loss.logits"), output, type.getElementType());
  Value p = SigmoidOp::create(builder, at("loss.p"), type, x);
  auto axes = llvm::to_vector(llvm::seq<int64_t>(rank == 2 ? 1 : 2, rank));
  Loss loss = reduceDice(buildDiceOf(p, target, axes), {});
  if (!perSample || !isPerSample(loss.perSample))
    loss.perSample = {};
  loss.prediction = output;
  return loss;
}
