// Builds losses of class labels: finds the axis of the classes and the shape of
// the labels.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/LossBuilder.h"
#include "passes/Differentiation/LossSpec.h"

#include "compiler/Support/ExitCode.h"

#include <numeric>

using namespace mlir;
using namespace mpc;

// Reports an error if a softmax computed `scores`, since the loss applies a
// softmax. A second softmax trains slowly and to a worse model, which
// is hard to notice.
static LogicalResult verifyNoSoftmax(LossKind kind, Value scores, bool warn) {
  Operation *op = throughViews(scores);
  if (!isa_and_nonnull<SoftmaxOp, LogSoftmaxOp>(op))
    return success();
  std::string advice = "train on the scores before it: --loss " +
                       std::string(stringify(kind)) + "@NODE";
  if (Operation *before = op->getOperand(0).getDefiningOp())
    advice += ", here @" + getNodeName(before).str();
  // log_softmax(log_softmax(x)) equals log_softmax(x), so only warn.
  if (isa<LogSoftmaxOp>(op)) {
    if (warn)
      mlir::emitWarning(op->getLoc())
          << stringify(kind)
          << (kind == LossKind::SoftmaxCrossEntropy ? " takes the logarithm of "
                                                    : " takes the ")
          << "softmax again, which changes nothing but costs time; " << advice;
    return success();
  }
  return withExitCode(mlir::emitError(op->getLoc()), ExitCode::InvalidInput)
         << "expected scores for " << stringify(kind)
         << ", which applies softmax itself, found the output of Softmax; "
         << advice;
}

static Shape without(ArrayRef<int64_t> shape, int64_t axis) {
  Shape rest(shape);
  rest.erase(rest.begin() + axis);
  return rest;
}

static int64_t countElements(ArrayRef<int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                         std::multiplies<>());
}

std::optional<Shape> LossBuilder::findLabelShape(StringRef target) {
  if (Value found = function.input(target))
    return Shape(typeOf(found).getShape());
  std::optional<int64_t> batch = batchSize();
  if (!sampleLabels || !batch)
    return std::nullopt;
  Shape shape = {*batch};
  llvm::append_range(shape, *sampleLabels);
  return shape;
}

bool LossBuilder::fits(ArrayRef<int64_t> labels, ArrayRef<int64_t> positions) {
  if (labels == positions)
    return true;
  // Accept labels [B, T] for scores whose positions are flattened to [B * T].
  ArrayRef<int64_t> inner = positions.drop_front();
  return labels.size() > positions.size() &&
         labels.take_back(inner.size()) == inner &&
         countElements(labels) == countElements(positions);
}

// Returns the axis of `scores` that holds the features of a MatMul, Gemm or
// Conv: one class per feature. Returns nullopt if no such layer computes
// `scores`, or if an op in between loses the axis.
static std::optional<int64_t> findFeatureAxis(Value scores) {
  Operation *last = scores.getDefiningOp();
  if (!last)
    return std::nullopt;
  // `followSamples` traces an axis of samples through ops. The function traces
  // any axis of known size, so here it traces the axis of features.
  DenseMap<Value, std::pair<SampleAxis, int64_t>> axes;
  for (Operation &op : *last->getBlock()) {
    if (op.getNumResults() == 0)
      continue;
    std::optional<SampleAxis> found;
    int64_t features = 0;
    RankedTensorType type = typeOf(op.getResult(0));
    if (isa<MatMulOp, GemmOp>(op)) {
      found = SampleAxis{type.getRank() - 1};
    } else if (isa<ConvOp>(op)) {
      found = SampleAxis{1};
    } else {
      SmallVector<std::optional<SampleAxis>> operands;
      bool isOfOne = true;
      for (Value operand : op.getOperands()) {
        auto place = axes.find(operand);
        operands.emplace_back();
        if (place == axes.end())
          continue;
        operands.back() = place->second.first;
        isOfOne &= features == 0 || features == place->second.second;
        features = place->second.second;
      }
      if (isOfOne && features > 1)
        found = followSamples(&op, operands, features);
    }
    // A slice may drop features: a table can have more rows than there are
    // words. The remaining features stay on the same axis, but their number no
    // longer identifies the axis.
    if (isa<SliceOp>(op))
      if (auto whole = axes.find(op.getOperand(0)); whole != axes.end()) {
        found = whole->second.first;
        features = 0;
      }
    if (!found || found->outer != 1)
      continue;
    const int64_t extent = type.getDimSize(found->axis);
    if (features == 0 || features == extent)
      axes[op.getResult(0)] = {*found, extent};
    if (&op == last)
      break;
  }
  auto found = axes.find(scores);
  return found == axes.end() ? std::nullopt
                             : std::optional(found->second.first.axis);
}

// Finds the axis of `scores` that holds the classes. PyTorch puts classes on
// axis 1, models of sequences on the last axis.
FailureOr<int64_t>
LossBuilder::findClassAxis(const PlacedLoss &loss, Value scores,
                           const std::optional<Shape> &labels) {
  ArrayRef<int64_t> shape = typeOf(scores).getShape();
  int64_t last = shape.size() - 1;
  auto usage = [&] {
    return withExitCode(mlir::emitError(scores.getLoc()), ExitCode::Usage);
  };
  // Use the axis that the user named, if any.
  if (loss.classAxis) {
    int64_t axis = *loss.classAxis + (*loss.classAxis < 0 ? last + 1 : 0);
    if (axis < 1 || axis > last)
      return usage() << "classes cannot be on axis " << *loss.classAxis
                     << " of scores of shape " << printShape(shape)
                     << ", whose axis 0 is the batch";
    return axis;
  }
  // Scores [batch, classes] have one possible axis.
  if (last == 1)
    return 1;
  // The labels have the shape of the scores without the axis of classes. For
  // scores [8, 5, 7], labels [8, 7] mean axis 1, labels [8, 5] the last axis.
  bool first = !labels || fits(*labels, without(shape, 1));
  bool final = !labels || fits(*labels, without(shape, last));
  if (first != final)
    return first ? 1 : last;
  if (!first)
    return withExitCode(mlir::emitError(scores.getLoc()),
                        ExitCode::InvalidInput)
           << "expected labels of shape " << printShape(without(shape, 1))
           << " (classes on axis 1) or " << printShape(without(shape, last))
           << " (classes on axis " << last << ") for scores of shape "
           << printShape(shape) << ", found " << printShape(*labels)
           << "; labels have their samples first: turn others in the data, "
              "such as numpy.moveaxis(labels, 1, 0); if an input has them on "
              "another axis, name it with --batch-axis INPUT=AXIS";
  // Here both axes fit: the labels are unknown, or the axes have equal extents.
  // If the labels are unknown, use the axis of the last layer's features.
  std::optional<int64_t> features;
  if (!labels)
    features = findFeatureAxis(scores);
  if (features && (*features == 1 || *features == last)) {
    if (!perSample)
      mlir::emitRemark(scores.getLoc())
          << "the class axis is " << *features << " of scores of shape "
          << printShape(shape)
          << ", because the layer has its outputs there; --loss "
             "KIND@OUTPUT:AXIS chooses another";
    return *features;
  }
  // The axis is ambiguous, so ask the user to name the axis.
  LossSpec named = loss.spec;
  if (named.output.empty())
    named.output = function.outputNames().front().str();
  named.factor = 1;
  std::string choice = "--loss " + printLoss(named) + ":";
  return usage() << "scores of shape " << printShape(shape)
                 << " may have their classes on axis 1 or on axis " << last
                 << ", and "
                 << (labels ? "the labels' shape " + printShape(*labels) +
                                  " fits both"
                            : "the shape of the labels is unknown")
                 << "; say which with " << choice << "1 or " << choice << last;
}

// Returns the shape of the label input: `labels`, if that shape is known and
// fits. Otherwise returns `positions`, one label per position. If the model
// flattens B samples of T positions to [B * T], groups the labels by sample:
// [B, T].
FailureOr<Shape>
LossBuilder::chooseLabelShape(LossKind kind, ArrayRef<int64_t> positions,
                              const std::optional<Shape> &labels,
                              Value scores) {
  if (labels && fits(*labels, positions))
    return *labels;
  if (labels) {
    // Labels of the same shape as the scores are probabilities of classes,
    // which only softmax_cross_entropy accepts.
    bool isOfClasses = *labels == Shape(typeOf(scores).getShape());
    return withExitCode(mlir::emitError(scores.getLoc()),
                        ExitCode::InvalidInput)
           << "expected labels of shape " << printShape(positions)
           << " for scores of shape " << printShape(typeOf(scores).getShape())
           << ", found " << printShape(*labels)
           << (!isOfClasses              ? ""
               : kind == LossKind::Focal ? "; for such targets, use "
                                           "sigmoid_focal"
               : kind == LossKind::Dice  ? "; for such targets, use "
                                           "sigmoid_dice"
                                         : "; probabilities are targets of "
                                           "softmax_cross_entropy and kl_div");
  }
  std::optional<int64_t> batch = batchSize();
  Shape shape(positions);
  if (batch && *batch > 0 && shape[0] > *batch && shape[0] % *batch == 0) {
    shape[0] /= *batch;
    shape.insert(shape.begin(), *batch);
  }
  return shape;
}

Value mpc::moveAxis(OpBuilder &builder, Location loc, Value value, int64_t from,
                    int64_t to) {
  auto type = typeOf(value);
  if (from == to)
    return value;
  auto perm = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  perm.erase(perm.begin() + from);
  perm.insert(perm.begin() + to, from);
  Shape shape;
  for (int64_t axis : perm)
    shape.push_back(type.getDimSize(axis));
  return TransposeOp::create(builder, loc, type.clone(shape), value, perm);
}

//===----------------------------------------------------------------------===//
// The loss
//===----------------------------------------------------------------------===//

FailureOr<Value> LossBuilder::buildClassWeights(Value scores, int64_t classes) {
  ArrayRef<double> weights = recipe.classWeights;
  if (weights.empty())
    return Value();
  if (static_cast<int64_t>(weights.size()) != classes)
    return withExitCode(mlir::emitError(scores.getLoc()),
                        ExitCode::InvalidInput)
           << "expected " << classes << " --class-weights, one of each class, "
           << "for scores of shape " << printShape(typeOf(scores).getShape())
           << ", found " << weights.size();
  return buildConstant(weights, {classes}, lossElementType(scores));
}

Operation *LossBuilder::createLabelLoss(LossKind kind, Value rows, Value labels,
                                        LossReduction reduction) {
  Type element = lossElementType(rows);
  auto type = reduction == LossReduction::None
                  ? typeOf(labels).clone(element)
                  : RankedTensorType::get({}, element);
  auto how = LossReductionAttr::get(builder.getContext(), reduction);
  IntegerAttr ignored;
  if (recipe.ignoreIndex)
    ignored = builder.getI64IntegerAttr(*recipe.ignoreIndex);
  // If all labels of a batch are ignored, the mean is 0, not 0 / 0.
  UnitAttr zeroIfEmpty;
  if (reduction == LossReduction::Mean && recipe.weighsLabels())
    zeroIfEmpty = builder.getUnitAttr();
  if (kind == LossKind::NLL)
    return NLLLossOp::create(builder, at("loss"), type, rows, labels,
                             classWeights, how, ignored, zeroIfEmpty);
  return SoftmaxCrossEntropyLossOp::create(
      builder, at("loss"), TypeRange{type, typeOf(rows).clone(element)}, rows,
      labels, classWeights, how, ignored, zeroIfEmpty,
      builder.getF64FloatAttr(recipe.labelSmoothing.value_or(0)));
}

// Returns the weight of each label: the class weight, or 0 for an ignored
// label. An nll loss of log-probabilities that are all -1 computes just this
// weight.
Value LossBuilder::buildLabelWeights(Value rows, Value labels) {
  Type element = lossElementType(rows);
  Value ones =
      ExpandOp::create(builder, at("loss.weights"), typeOf(rows).clone(element),
                       scalar(-1.0, element));
  return createLabelLoss(LossKind::NLL, ones, labels, LossReduction::None)
      ->getResult(0);
}

Loss LossBuilder::reduceLabels(Value each, Operation *op, Value weights,
                               ArrayRef<int64_t> labelShape) {
  Loss loss{{}, {}, {}, {}, op};
  // Reshape to one loss per label: [samples, labels per sample].
  each = reshape(each, labelShape, "loss.sample");
  // Without weights, every sample has equally many labels, so the mean over all
  // labels is the mean over the means of the samples.
  if (!recipe.sumsLoss() && !weights) {
    loss.perSample = mean(each, 1, "loss.sample");
    loss.total = mean(loss.perSample, 0, "loss.mean");
    return loss;
  }
  // With weights, or for a sum, add up the losses of each sample, then of all
  // samples.
  loss.perSample = sum(each, 1, "loss.sample");
  loss.total = sum(loss.perSample, 0, "loss.sum");
  if (recipe.sumsLoss())
    return loss;
  // A weighted mean divides the sum of losses by the sum of weights. If all
  // weights are 0, as in a batch with only ignored labels, the mean is 0.
  loss.sampleWeight =
      sum(reshape(weights, labelShape, "loss.weights"), 1, "loss.weights");
  Value count = sum(loss.sampleWeight, 0, "loss.count");
  Type type = loss.total.getType(), element = elementOf(loss.total);
  Value isAny = mpc::CastOp::create(
      builder, at("loss.any"), typeOf(count).clone(builder.getI1Type()), count);
  Value mean = DivOp::create(builder, at("loss.mean"), type, loss.total, count);
  loss.total = SelectOp::create(builder, at("loss.mean"), type, isAny, mean,
                                scalar(0.0, element));
  return loss;
}

// Applies label smoothing to `targets`, with classes along `axis`, and
// multiplies the targets by the class weights. `weights` may be null.
Value LossBuilder::weighTargets(Value targets, int64_t axis, Value weights) {
  RankedTensorType type = typeOf(targets);
  Type element = type.getElementType();
  const int64_t classes = type.getDimSize(axis);
  if (double smoothing = recipe.labelSmoothing.value_or(0); smoothing != 0) {
    targets = MulOp::create(builder, at("loss.smooth"), type, targets,
                            scalar(1 - smoothing, element));
    targets = AddOp::create(builder, at("loss.smooth"), type, targets,
                            scalar(smoothing / double(classes), element));
  }
  if (!weights)
    return targets;
  Shape shape(type.getRank(), 1);
  shape[axis] = classes;
  return MulOp::create(builder, at("loss.weighted"), type, targets,
                       reshape(weights, shape, "loss.weights"));
}

// Builds PyTorch's cross_entropy with probabilities as targets: the mean over
// all positions of -sum(t * log_softmax(x)) over the classes. The mean does not
// divide by class weights. One-hot labels are such targets.
FailureOr<Loss> LossBuilder::buildOfProbabilities(const PlacedLoss &asked,
                                                  Value scores,
                                                  ArrayRef<int64_t> given) {
  FailureOr<int64_t> axis = findClassAxis(asked, scores, std::nullopt);
  if (failed(axis))
    return failure();
  // --ignore-index names a class label, and probabilities have no labels.
  if (recipe.ignoreIndex)
    return withExitCode(mlir::emitError(scores.getLoc()), ExitCode::Usage)
           << "--ignore-index is for class labels, and has no effect on "
              "probabilities (targets of the scores' shape)";
  // Compute the loss in fp32 at least, for scores of any type.
  Type element = lossElementType(scores);
  auto type = typeOf(scores).clone(element);
  FailureOr<Value> weights = buildClassWeights(scores, type.getDimSize(*axis));
  if (failed(weights))
    return failure();
  FailureOr<Value> labels =
      addLabels(asked.target, RankedTensorType::get(given, element));
  if (failed(labels))
    return failure();
  Value part = weighTargets(reshape(*labels, type.getShape(), "loss.labels"),
                            *axis, *weights);
  // Compute -sum(t * log_softmax(x)) over the classes: one loss per position.
  Value logs =
      LogSoftmaxOp::create(builder, at("loss.log"), type, scores, *axis);
  Value product = MulOp::create(builder, at("loss.part"), type, part, logs);
  auto each = type.clone(without(type.getShape(), *axis));
  Value loss = ReduceSumOp::create(builder, at("loss.sum"), each, product,
                                   ArrayRef<int64_t>{*axis}, false);
  loss = NegOp::create(builder, at("loss"), each, loss);
  auto reduce = [&](Value value, unsigned firstAxis, StringRef name) {
    return recipe.sumsLoss() ? sum(value, firstAxis, name)
                             : mean(value, firstAxis, name);
  };
  // The scores serve as the prediction only if evaluation can compare scores
  // with targets: equal shapes, with classes on axis 1.
  Value prediction;
  if (*axis == 1 && given == type.getShape())
    prediction = scores;
  // Average the losses of each sample first. `given[0]` is the number of
  // samples, even if the model flattens samples and positions into one axis.
  if (perSample && isPerSample(*labels)) {
    loss = reshape(loss, {given[0], each.getNumElements() / given[0]},
                   "loss.sample");
    Value ofSample = reduce(loss, 1, "loss.sample");
    return Loss{reduce(ofSample, 0, "loss.mean"), ofSample, prediction};
  }
  return Loss{reduce(loss, 0, "loss.mean"), {}, prediction};
}

Value LossBuilder::buildPrediction(Value rows, ArrayRef<int64_t> labelShape,
                                   size_t axesBehind) {
  Shape shape(labelShape);
  size_t axis = shape.size() - axesBehind;
  shape.insert(shape.begin() + axis, shapeOf(rows)[1]);
  return moveAxis(builder, at("loss.prediction"),
                  reshape(rows, shape, "loss.prediction"), axis, 1);
}

// Returns advice for a message about an output that has no axis of classes.
static StringRef helpWithoutClasses(int64_t rank) {
  return rank == 0 ? "if the model computes its loss itself, use --loss "
                     "output:NAME"
                   : "for one number per sample, use bce_with_logits (two "
                     "classes) or mse";
}

LogicalResult LossBuilder::verifyScores(LossKind kind, Value scores) {
  auto type = typeOf(scores);
  if (type.getRank() < 2)
    return withExitCode(mlir::emitError(scores.getLoc()),
                        ExitCode::InvalidInput)
           << "expected scores of shape [batch, classes, ...] for "
           << stringify(kind) << ", found " << printShape(type.getShape())
           << "; help: " << helpWithoutClasses(type.getRank());
  if (type.getNumElements() == 0)
    return withExitCode(mlir::emitError(scores.getLoc()),
                        ExitCode::InvalidInput)
           << "expected scores of at least one sample and one class, found "
           << printShape(type.getShape());
  // The builder runs for @step and @eval. Warn once, in @step.
  return kind == LossKind::NLL ? verifyLogProbabilities(kind, scores)
                               : verifyNoSoftmax(kind, scores,
                                                 /*warn=*/!perSample);
}

FailureOr<Loss> LossBuilder::buildOfClasses(PlacedLoss asked) {
  LossKind kind = asked.spec.kind;
  if (failed(verifyScores(kind, asked.output)))
    return failure();
  Value scores = moveSamplesFirst(asked.output, asked.target, asked.classAxis);
  auto type = typeOf(scores);
  int64_t last = type.getRank() - 1;
  std::optional<Shape> known = findLabelShape(asked.target);
  // Targets with the shape of the scores are probabilities. Class labels can
  // have this shape too, if axis 1 of the scores has size 1; class labels win.
  if (kind == LossKind::SoftmaxCrossEntropy && known &&
      fits(*known, type.getShape()) &&
      !fits(*known, without(type.getShape(), 1)))
    return buildOfProbabilities(asked, scores, *known);
  FailureOr<int64_t> axis = findClassAxis(asked, scores, known);
  if (failed(axis))
    return failure();
  Shape positions = without(type.getShape(), *axis);
  FailureOr<Shape> labelShape =
      chooseLabelShape(kind, positions, known, scores);
  if (failed(labelShape))
    return failure();
  int64_t classes = type.getDimSize(*axis);
  FailureOr<Value> weights = buildClassWeights(scores, classes);
  if (failed(weights))
    return failure();
  classWeights = *weights;
  FailureOr<Value> labels = addLabels(
      asked.target, RankedTensorType::get(*labelShape, builder.getI64Type()));
  if (failed(labels))
    return failure();
  // Bring classes to axis 1. If classes are last, flatten [B, T, C] to rows [B
  // * T, C]; otherwise transpose.
  Value rows = scores;
  if (*axis == last) {
    positions = {countElements(positions)};
    rows = reshape(scores, {positions[0], classes}, "loss.scores");
  } else {
    rows = moveAxis(builder, at("loss.scores"), scores, *axis, 1);
  }
  // To report a loss per sample, compute a loss per label. Otherwise reduce all
  // labels in the loss op.
  bool split = perSample && isPerSample(*labels);
  LossReduction whole =
      recipe.sumsLoss() ? LossReduction::Sum : LossReduction::Mean;
  Value flat = reshape(*labels, positions, "loss.labels");
  // For evaluation, restore the shape of the labels, with classes on axis 1.
  auto predict = [&] {
    return perSample && *labelShape != positions
               ? buildPrediction(rows, *labelShape,
                                 *axis == last ? 0 : positions.size() - 1)
               : rows;
  };
  if (kind == LossKind::Focal || kind == LossKind::Dice) {
    Loss loss = kind == LossKind::Focal ? buildFocal(rows, flat, *labelShape)
                                        : buildDice(rows, flat, *labelShape);
    if (!split)
      loss.perSample = loss.sampleWeight = {};
    loss.prediction = predict();
    return loss;
  }
  Operation *op =
      createLabelLoss(kind, rows, flat, split ? LossReduction::None : whole);
  Value prediction = predict();
  if (!split)
    return Loss{op->getResult(0), {}, prediction, {}, op};
  // With class weights or ignored labels, the weights of samples differ. Then
  // the mean is the sum of losses divided by the sum of weights.
  Value counts;
  if (!recipe.sumsLoss() && recipe.weighsLabels())
    counts = buildLabelWeights(rows, flat);
  Loss loss = reduceLabels(op->getResult(0), op, counts, *labelShape);
  loss.prediction = prediction;
  return loss;
}
