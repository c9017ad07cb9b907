// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/LossBuilder.h"

#include "compiler/Dialect/MPC/Facts/SampleLoss.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Differentiation/SampleAxisAnalysis.h"
#include "runtime/Names.h"

using namespace mlir;
using namespace mpc;

Operation *mpc::throughViews(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<ReshapeOp, mpc::CastOp, ExpandOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

Type LossBuilder::lossElementType(Value output) {
  if (isDouble || elementOf(output).isF64())
    return builder.getF64Type();
  return builder.getF32Type();
}

FailureOr<Value> LossBuilder::addLabels(StringRef name, RankedTensorType type) {
  Value found = function.input(name);
  if (!found)
    return function.addInput(name, Role::Label, type);
  const Location where = function.get()->getParentOp()->getLoc();
  const bool isOfOther = function.port(found).getRole() == Role::Label;
  if (found.getType() != type && isOfOther)
    return withExitCode(mlir::emitError(where), ExitCode::InvalidInput)
           << "one loss needs labels of " << printTensorType(typeOf(found))
           << ", another of " << printTensorType(type) << ", and '" << name
           << "' cannot be both; name an array for each with --target-array "
              "OUTPUT=ARRAY";
  if (found.getType() != type)
    return withExitCode(mlir::emitError(where), ExitCode::InvalidInput)
           << "input '" << name << "' of the model is "
           << printTensorType(typeOf(found))
           << ", but the loss needs labels of " << printTensorType(type)
           << "; name another array with --target-array";
  // If the model reads the array too, as an autoencoder does, keep that input
  // and add a second input for the labels.
  if (!isOfOther && !found.use_empty())
    return addLabelsBeside(found, name, type);
  function.setInputRole(found, Role::Label);
  return found;
}

FailureOr<Value> LossBuilder::addLabelsBeside(Value input, StringRef name,
                                              RankedTensorType type) {
  const std::string own = name.str() + kLabelSuffix;
  if (Value labels = function.input(own))
    return labels;
  Value labels = function.addInput(own, Role::Label, type);
  if (auto axis = function.port(input).get<mlir::IntegerAttr>(kBatchAxisAttr))
    function.setAttr(labels, kBatchAxisAttr, axis);
  return labels;
}

Value LossBuilder::mean(Value value, unsigned firstAxis, StringRef name) {
  auto type = typeOf(value);
  auto axes = llvm::to_vector(llvm::seq<int64_t>(firstAxis, type.getRank()));
  if (axes.empty())
    return value;
  return ReduceMeanOp::create(builder, at(name),
                              type.clone(type.getShape().take_front(firstAxis)),
                              value, axes, false);
}

Value LossBuilder::sum(Value value, unsigned firstAxis, StringRef name) {
  auto type = typeOf(value);
  auto axes = llvm::to_vector(llvm::seq<int64_t>(firstAxis, type.getRank()));
  if (axes.empty())
    return value;
  return ReduceSumOp::create(builder, at(name),
                             type.clone(type.getShape().take_front(firstAxis)),
                             value, axes, false);
}

Value LossBuilder::scalar(double value, Type element) {
  return ConstantOp::create(
      builder, at("loss.constant"),
      DenseElementsAttr::get(RankedTensorType::get({}, element),
                             builder.getFloatAttr(element, value)));
}

std::optional<int64_t> LossBuilder::batchSize() {
  std::optional<int64_t> batch;
  for (Value argument : function.get().getArguments()) {
    std::optional<Role> role = function.port(argument).getRole();
    if (role != Role::Data && role != Role::Label)
      continue;
    auto input = typeOf(argument);
    const int64_t axis =
        std::max<int64_t>(function.port(argument).getBatchAxis(), 0);
    if (axis >= input.getRank() || (batch && *batch != input.getDimSize(axis)))
      return std::nullopt;
    batch = input.getDimSize(axis);
  }
  return batch;
}

std::optional<SampleAxis> LossBuilder::findSamples(Value output) {
  std::optional<int64_t> batch = batchSize();
  if (!batch)
    return std::nullopt;
  SmallVector<std::pair<Value, int64_t>> inputs;
  for (Value argument : function.get().getArguments()) {
    const PortAttrs port = function.port(argument);
    if (port.getRole() == Role::Data && port.getBatchAxis() >= 0 &&
        port.getBatchAxis() < typeOf(argument).getRank())
      inputs.emplace_back(argument, port.getBatchAxis());
  }
  if (*batch != 1)
    return SampleAxisAnalysis(function.getBody(), inputs, *batch).find(output);
  // With a batch of 1, an axis of samples is not recognizable by size. Assume
  // that the samples are on the same axis as in the inputs.
  if (inputs.empty() || !llvm::all_equal(llvm::make_second_range(inputs)))
    return std::nullopt;
  const int64_t axis = inputs.front().second;
  ArrayRef<int64_t> shape = shapeOf(output);
  bool isThere = axis < static_cast<int64_t>(shape.size()) && shape[axis] == 1;
  return isThere ? std::optional(SampleAxis{axis}) : std::nullopt;
}

Value LossBuilder::moveSamplesFirst(Value output, StringRef target,
                                    std::optional<int64_t> &classAxis) {
  std::optional<SampleAxis> samples = findSamples(output);
  if (!samples || *samples == SampleAxis())
    return output;
  const int64_t axis = samples->axis, outer = samples->outer;
  Value own = function.input(target);
  if (own && outer == 1 && function.port(own).getBatchAxis() == axis)
    return output;
  // Reshape [time * batch, classes] to [time, batch, classes], so that samples
  // have an axis.
  Shape shape(shapeOf(output));
  const int64_t rank = shape.size(), batch = *batchSize();
  const int64_t inner = shape[axis] / (outer * batch);
  Shape parts;
  if (outer > 1)
    parts.push_back(outer);
  parts.push_back(batch);
  if (inner > 1)
    parts.push_back(inner);
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, parts.begin(), parts.end());
  // `classAxis` counts axes of the old shape, so translate the number. Axes
  // after `axis` are counted from the end (-1 is the last). Axes before `axis`
  // move back by one, since samples go first.
  if (!classAxis && rank == 2 && axis == 0)
    classAxis = -1;
  if (classAxis && *classAxis >= 0)
    *classAxis = *classAxis > axis    ? *classAxis - rank
                 : *classAxis == axis ? 0
                                      : *classAxis + 1;
  Value apart = reshape(output, shape, "loss.samples");
  return moveAxis(builder, at("loss.samples"), apart,
                  axis + (outer > 1 ? 1 : 0), 0);
}

bool LossBuilder::isPerSample(Value value) {
  auto type = typeOf(value);
  return type.getRank() > 0 && batchSize() == type.getDimSize(0);
}

Value LossBuilder::reshape(Value value, ArrayRef<int64_t> shape,
                           StringRef name) {
  auto type = typeOf(value).clone(shape);
  return type == value.getType()
             ? value
             : ReshapeOp::create(builder, at(name), type, value).getOutput();
}

FailureOr<Loss> LossBuilder::build(const PlacedLoss &loss) {
  if (!isa<FloatType>(elementOf(loss.output)))
    return withExitCode(mlir::emitError(loss.output.getLoc()),
                        ExitCode::InvalidInput)
           << "expected a float output for the loss, found "
           << printTensorType(typeOf(loss.output));
  if (hasClasses(loss.spec.kind))
    return buildOfClasses(loss);
  if (loss.spec.kind == LossKind::Output)
    return buildOutput(loss.output);
  return buildElementwise(loss.spec.kind, loss.output, loss.target);
}

//===----------------------------------------------------------------------===//
// Elementwise losses
//===----------------------------------------------------------------------===//

// Computes the Huber loss of the error e: c * (|e| - c / 2) with c = min(|e|,
// 1). This is half the square up to 1, then a line, and equals PyTorch's
// huber_loss with delta 1, and smooth_l1_loss with beta 1.
Value LossBuilder::buildHuber(Value error) {
  Type type = error.getType();
  Value size = AbsOp::create(builder, at("loss.size"), type, error);
  Value bounded = ClipOp::create(builder, at("loss.bounded"), type, size,
                                 FloatAttr(), builder.getF64FloatAttr(1.0));
  Value half = MulOp::create(builder, at("loss.half"), type, bounded,
                             scalar(0.5, elementOf(error)));
  Value rest = SubOp::create(builder, at("loss.rest"), type, size, half);
  return MulOp::create(builder, at("loss"), type, bounded, rest);
}

// Computes the KL divergence of targets t and log-probabilities x: t * (log(t)
// - x), and 0 where t is 0.
Value LossBuilder::buildKLDiv(Value output, Value target) {
  Type type = target.getType(), element = elementOf(target);
  Value isPositive =
      mpc::CastOp::create(builder, at("loss.positive"),
                          typeOf(target).clone(builder.getI1Type()), target);
  Value safe = SelectOp::create(builder, at("loss.safe"), type, isPositive,
                                target, scalar(1.0, element));
  Value log = LogOp::create(builder, at("loss.log"), type, safe);
  Value error = SubOp::create(builder, at("loss.error"), type, log, output);
  return MulOp::create(builder, at("loss"), type, target, error);
}

// Builds bce_with_logits. With positive weights w, computes w * t * bce(x, 1) +
// (1 - t) * bce(x, 0).
FailureOr<Value> LossBuilder::buildBCEWithLogits(Value output, Value target) {
  auto type = typeOf(target);
  Type element = type.getElementType();
  ArrayRef<double> weights = recipe.posWeight;
  if (weights.empty())
    return BCEWithLogitsOp::create(builder, at("loss"), type, output, target)
        .getOutput();
  // A list of weights has one weight per class, along axis 1.
  int64_t classes = type.getRank() < 2 ? 1 : type.getDimSize(1);
  if (weights.size() != 1 && static_cast<int64_t>(weights.size()) != classes)
    return withExitCode(mlir::emitError(output.getLoc()),
                        ExitCode::InvalidInput)
           << "expected one --pos-weight, or " << classes
           << ", one of each class on axis 1 of logits of shape "
           << printShape(type.getShape()) << ", found " << weights.size();
  Value weight = scalar(weights.front(), element);
  if (weights.size() != 1) {
    Shape shape(type.getRank(), 1);
    shape[1] = classes;
    weight = buildConstant(weights, shape, element);
  }
  // Weights apply to the part for target 1 only, so compute the parts for
  // targets 1 and 0 separately.
  Value one = scalar(1.0, element);
  auto multiply = [&](Value a, Value b) -> Value {
    return MulOp::create(builder, at("loss.part"), type, a, b);
  };
  Value yes =
      BCEWithLogitsOp::create(builder, at("loss.yes"), type, output, one);
  Value no = BCEWithLogitsOp::create(builder, at("loss.no"), type, output,
                                     scalar(0.0, element));
  Value isNo = SubOp::create(builder, at("loss.part"), type, one, target);
  return AddOp::create(builder, at("loss"), type,
                       multiply(multiply(target, weight), yes),
                       multiply(isNo, no))
      .getOutput();
}

FailureOr<Value> LossBuilder::errorOf(LossKind kind, Value output,
                                      Value target) {
  Type type = typeOf(output).clone(lossElementType(output));
  if (kind == LossKind::BCEWithLogits)
    return buildBCEWithLogits(output, target);
  if (kind == LossKind::SigmoidFocal)
    return buildSigmoidFocal(output, target);
  if (kind == LossKind::BCE)
    return BCEOp::create(builder, at("loss"), type, output, target).getOutput();
  if (kind == LossKind::KLDiv)
    return buildKLDiv(output, target);
  Value error = SubOp::create(builder, at("loss.error"), type, output, target);
  if (kind == LossKind::L1)
    return AbsOp::create(builder, at("loss"), type, error).getOutput();
  if (kind == LossKind::Huber || kind == LossKind::SmoothL1)
    return buildHuber(error);
  return MulOp::create(builder, at("loss"), type, error, error).getOutput();
}

Value LossBuilder::buildConstant(ArrayRef<double> values,
                                 ArrayRef<int64_t> shape, Type element) {
  SmallVector<Attribute> attributes;
  for (double value : values)
    attributes.push_back(builder.getFloatAttr(element, value));
  return ConstantOp::create(
      builder, at("loss.weights"),
      DenseElementsAttr::get(RankedTensorType::get(shape, element),
                             attributes));
}

// Returns the matmul, gemm or conv that computes `output`, possibly before a
// bias: its results may be any numbers. Null if another op computes `output`.
static Operation *findAnyNumbers(Value output) {
  Operation *op = throughViews(output);
  if (auto sum = dyn_cast_or_null<AddOp>(op))
    for (Value addend : sum->getOperands())
      if (Operation *source = addend.getDefiningOp();
          source && isa<MatMulOp, ConvOp>(source))
        op = source;
  return isa_and_nonnull<MatMulOp, GemmOp, ConvOp>(op) ? op : nullptr;
}

LogicalResult LossBuilder::verifyLogProbabilities(LossKind kind, Value output) {
  Operation *op = throughViews(output);
  // The builder runs for @step and @eval. Warn once, in @step.
  if (Operation *scores = perSample ? nullptr : findAnyNumbers(output))
    mlir::emitWarning(scores->getLoc())
        << stringify(kind)
        << " needs log-probabilities, but this node's result may be any "
           "number; "
        << (kind == LossKind::NLL ? "for scores, use --loss cross_entropy"
                                  : "have LogSoftmax in the model");
  if (!isa_and_nonnull<SoftmaxOp>(op))
    return success();
  std::string advice = "have LogSoftmax in the model";
  if (Operation *scores = op->getOperand(0).getDefiningOp();
      scores && kind == LossKind::NLL)
    advice += ", or train on the scores before it: --loss cross_entropy@" +
              getNodeName(scores).str();
  return withExitCode(mlir::emitError(op->getLoc()), ExitCode::InvalidInput)
         << "expected log-probabilities for " << stringify(kind)
         << ", found the output of Softmax; " << advice;
}

// Reports an error if a sigmoid computed `logits`, since the loss applies a
// sigmoid.
static LogicalResult verifyNoSigmoid(LossKind kind, Value logits) {
  Operation *op = throughViews(logits);
  if (!isa_and_nonnull<SigmoidOp>(op))
    return success();
  std::string advice = "train on the logits before it: --loss " +
                       std::string(stringify(kind)) + "@NODE";
  if (Operation *before = op->getOperand(0).getDefiningOp())
    advice += ", here @" + getNodeName(before).str();
  return withExitCode(mlir::emitError(op->getLoc()), ExitCode::InvalidInput)
         << "expected logits for " << stringify(kind)
         << ", which applies sigmoid itself, found the output of Sigmoid; "
         << advice;
}

// Warns if `output` comes straight from a layer and so is no probability. The
// logarithm of a negative number is NaN.
static void warnOfLogits(Value output) {
  if (Operation *op = findAnyNumbers(output))
    mlir::emitWarning(op->getLoc())
        << "bce needs probabilities, but this node's result may be any "
           "number; for logits, use --loss bce_with_logits";
}

FailureOr<Loss> LossBuilder::buildElementwise(LossKind kind, Value output,
                                              StringRef target) {
  auto type = typeOf(output);
  if (hasBinaryTargets(kind) && kind != LossKind::BCE &&
      failed(verifyNoSigmoid(kind, output)))
    return failure();
  // The builder runs for @step and @eval. Warn once, in @step.
  if (kind == LossKind::BCE && !perSample)
    warnOfLogits(output);
  if (kind == LossKind::KLDiv && failed(verifyLogProbabilities(kind, output)))
    return failure();
  std::optional<int64_t> classAxis;
  output = moveSamplesFirst(output, target, classAxis);
  type = typeOf(output);
  FailureOr<Value> labels =
      addLabels(target, type.clone(lossElementType(output)));
  if (failed(labels))
    return failure();
  if (kind == LossKind::SigmoidDice)
    return buildSigmoidDice(output, *labels);
  FailureOr<Value> error = errorOf(kind, output, *labels);
  if (failed(error))
    return failure();
  // A divergence sums over each sample. Its mean is PyTorch's `batchmean`: the
  // sum of all elements divided by the number of samples.
  bool isDivergence = kind == LossKind::KLDiv && type.getRank() > 0;
  auto total = [&](Value value) {
    return recipe.sumsLoss() ? sum(value, 0, "loss.sum")
                             : mean(value, 0, "loss.mean");
  };
  auto samples = [&] {
    return recipe.sumsLoss() || isDivergence ? sum(*error, 1, "loss.sample")
                                             : mean(*error, 1, "loss.sample");
  };
  if (perSample && isPerSample(*error)) {
    Value each = samples();
    return Loss{total(each), each, output};
  }
  return Loss{total(isDivergence ? samples() : *error), {}, output};
}

// Builds a loss that the model computes, a value with one element and any rank.
// Reports an error for more elements, because taking their mean is not what the
// user asked for.
FailureOr<Loss> LossBuilder::buildOutput(Value output) {
  auto type = typeOf(output);
  if (type.getNumElements() != 1)
    return withExitCode(mlir::emitError(output.getLoc()),
                        ExitCode::InvalidInput)
           << "expected a loss of one element for --loss output:NAME, found "
           << printShape(type.getShape())
           << "; reduce it in the model with ReduceMean, or choose a loss "
              "that reads it, such as --loss mse@NAME";
  Value average = mean(output, 0, "loss.mean");
  std::optional<int64_t> batch = batchSize();
  if (!perSample || !batch)
    return Loss{average, {}, {}};
  return Loss{average, buildSampleLoss(builder, average, *batch), {}};
}
