// Softmax cross entropy: where the classes are, what the labels are like, and
// the loss of them.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/LossBuilder.h"

#include "compiler/Support/ExitCode.h"
#include "passes/Differentiation/SampleAxis.h"

#include <numeric>

using namespace mlir;
using namespace mpc;

// softmax_cross_entropy applies a softmax of its own. A second one trains, but
// slowly and to a worse model, which is hard to notice.
static LogicalResult verifyNoSoftmax(Value scores, bool warn) {
  Operation *op = throughViews(scores);
  if (!isa_and_nonnull<SoftmaxOp, LogSoftmaxOp>(op))
    return success();
  std::string advice =
      "train on the scores before it: --loss softmax_cross_entropy@NODE";
  if (Operation *before = op->getOperand(0).getDefiningOp())
    advice += ", here @" + getNodeName(before).str();
  if (isa<LogSoftmaxOp>(op)) {
    if (warn)
      mlir::emitWarning(op->getLoc())
          << "softmax_cross_entropy takes the logarithm of softmax again, "
             "which changes nothing but costs time; "
          << advice;
    return success();
  }
  return withExitCode(mlir::emitError(op->getLoc()), ExitCode::InvalidInput)
         << "expected scores for softmax_cross_entropy, which applies "
            "softmax itself, found the output of Softmax; "
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
  // [B, T] for the positions [B * T] that a model flattened.
  ArrayRef<int64_t> inner = positions.drop_front();
  return labels.size() > positions.size() &&
         labels.take_back(inner.size()) == inner &&
         countElements(labels) == countElements(positions);
}

// PyTorch has classes on axis 1, and models of sequences on the last.
FailureOr<int64_t>
LossBuilder::findClassAxis(const LossSpec &spec, Value scores,
                           const std::optional<Shape> &labels) {
  ArrayRef<int64_t> shape = typeOf(scores).getShape();
  int64_t last = shape.size() - 1;
  auto usage = [&] {
    return withExitCode(mlir::emitError(scores.getLoc()), ExitCode::Usage);
  };
  if (spec.classAxis) {
    int64_t axis = *spec.classAxis + (*spec.classAxis < 0 ? last + 1 : 0);
    if (axis < 1 || axis > last)
      return usage() << "classes cannot be on axis " << *spec.classAxis
                     << " of scores of shape " << printShape(shape)
                     << ", whose axis 0 is the batch";
    return axis;
  }
  if (last == 1)
    return 1;
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
           << printShape(shape) << ", found " << printShape(*labels);
  std::string name =
      spec.output.empty() ? function.outputNames().front().str() : spec.output;
  std::string choice = "--loss softmax_cross_entropy@" + name + ":";
  return usage() << "scores of shape " << printShape(shape)
                 << " may have their classes on axis 1 or on axis " << last
                 << ", and "
                 << (labels ? "the labels' shape " + printShape(*labels) +
                                  " fits both"
                            : "no shape of the labels is known")
                 << "; say which with " << choice << "1 or " << choice << last;
}

// Labels have a row for each sample, and are paired with the scores in the
// order they come in. Of scores of [time, batch, classes], or of those
// flattened, that is another order.
LogicalResult LossBuilder::verifySampleMajor(Value scores) {
  std::optional<int64_t> batch = batchSize();
  if (!batch)
    return success();
  SmallVector<Value> inputs;
  for (Value argument : function.get().getArguments())
    if (function.roleOf(argument) == "data")
      inputs.push_back(argument);
  SampleAxes samples(function.get().getBody().front(), inputs, *batch);
  std::optional<SampleAxis> found = samples.find(scores);
  if (!found || *found == SampleAxis())
    return success();
  InFlightDiagnostic error =
      withExitCode(mlir::emitError(scores.getLoc()), ExitCode::InvalidInput);
  error << "expected scores with the samples on axis 0, as the labels have "
           "them, found ";
  if (found->outer > 1)
    error << found->outer << " positions of all " << *batch
          << " samples one after the other on axis " << found->axis;
  else
    error << "them on axis " << found->axis;
  return error << " of " << printShape(typeOf(scores).getShape())
               << "; transpose the scores in the model, or name those before "
                  "they are transposed with --loss softmax_cross_entropy@NODE";
}

// What the labels' input is like: what is known of it, or one label for each
// position. A model that flattens samples and positions into one axis takes the
// labels of each sample together.
FailureOr<Shape>
LossBuilder::chooseLabelShape(ArrayRef<int64_t> positions,
                              const std::optional<Shape> &labels,
                              Value scores) {
  if (labels && fits(*labels, positions))
    return *labels;
  if (labels)
    return withExitCode(mlir::emitError(scores.getLoc()),
                        ExitCode::InvalidInput)
           << "expected labels of shape " << printShape(positions)
           << " for scores of shape " << printShape(typeOf(scores).getShape())
           << ", found " << printShape(*labels);
  std::optional<int64_t> batch = batchSize();
  Shape shape(positions);
  if (batch && *batch > 0 && shape[0] > *batch && shape[0] % *batch == 0) {
    shape[0] /= *batch;
    shape.insert(shape.begin(), *batch);
  }
  return shape;
}

// `value` with axis `from` moved to where it is axis `to`.
static Value moveAxis(OpBuilder &builder, Location loc, Value value,
                      int64_t from, int64_t to) {
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

FailureOr<Loss> LossBuilder::buildSoftmaxCrossEntropy(const LossSpec &spec,
                                                      Value scores,
                                                      StringRef target) {
  auto type = typeOf(scores);
  int64_t last = type.getRank() - 1;
  if (last < 1)
    return withExitCode(mlir::emitError(scores.getLoc()),
                        ExitCode::InvalidInput)
           << "expected scores of shape [batch, classes, ...] for "
              "softmax_cross_entropy, found "
           << type;
  // Once, not for each function.
  if (failed(verifyNoSoftmax(scores, /*warn=*/!perSample)))
    return failure();
  // Where the classes are, and what the labels are like.
  std::optional<Shape> known = findLabelShape(target);
  FailureOr<int64_t> axis = findClassAxis(spec, scores, known);
  if (failed(axis) || failed(verifySampleMajor(scores)))
    return failure();
  Shape positions = without(type.getShape(), *axis);
  FailureOr<Shape> labelShape = chooseLabelShape(positions, known, scores);
  if (failed(labelShape))
    return failure();
  FailureOr<Value> labels = addLabels(
      target, RankedTensorType::get(*labelShape, builder.getI64Type()));
  if (failed(labels))
    return failure();
  // Classes on the last axis are rows of a matrix; others go to axis 1.
  int64_t classes = type.getDimSize(*axis);
  Value rows = scores;
  if (*axis == last) {
    positions = {countElements(positions)};
    rows = reshape(scores, {positions[0], classes}, "loss.scores");
  } else {
    rows = moveAxis(builder, at("loss.scores"), scores, *axis, 1);
  }
  bool split = perSample && isPerSample(*labels);
  Type element = lossElementType(scores);
  auto lossType = split ? RankedTensorType::get(positions, element)
                        : RankedTensorType::get({}, element);
  auto op = SoftmaxCrossEntropyLossOp::create(
      builder, at("loss"), TypeRange{lossType, typeOf(rows).clone(element)},
      rows, reshape(*labels, positions, "loss.labels"), Value(),
      builder.getStringAttr(split ? "none" : "mean"), IntegerAttr());
  // What evaluation compares with the labels has one axis more than they.
  Value prediction = rows;
  if (perSample && *labelShape != positions) {
    Shape shape(*labelShape);
    int64_t from = shape.size() - (positions.size() - 1);
    if (*axis == last)
      from = shape.size();
    shape.insert(shape.begin() + from, classes);
    prediction = moveAxis(builder, at("loss.prediction"),
                          reshape(rows, shape, "loss.prediction"), from, 1);
  }
  if (!split)
    return Loss{op.getLoss(), {}, prediction};
  Value each = reshape(op.getLoss(), *labelShape, "loss.sample");
  Value samples = mean(each, 1, "loss.sample");
  return Loss{mean(samples, 0, "loss.mean"), samples, prediction};
}
