// Infers the result shapes of losses over class labels.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Shapes/ShapeInference.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

// Checks that labels have the shape of the scores without axis 1, the classes:
// scores (N, C, d...), labels (N, d...).
static LogicalResult verifyLabelShape(std::optional<Location> loc,
                                      ArrayRef<int64_t> scores, Value labels) {
  if (scores.size() < 2)
    return emitOptionalError(loc,
                             "expected scores of shape (N, C, ...), "
                             "found [",
                             scores, "]");
  // With 0 classes every label would be out of range.
  if (scores[1] < 1)
    return emitOptionalError(loc,
                             "expected scores of at least one class, "
                             "found [",
                             scores, "]");
  Shape expected(scores);
  expected.erase(expected.begin() + 1);
  if (shapeOf(labels) != ArrayRef<int64_t>(expected))
    return emitOptionalError(loc, "expected labels of shape [",
                             ArrayRef<int64_t>(expected), "], found [",
                             shapeOf(labels), "]");
  return success();
}

// Like verifyLabelShape, and checks that there is one class weight per class:
// scores (N, C, d...), labels (N, d...), weights (C).
template <typename AdaptorT>
static LogicalResult verifyLabels(std::optional<Location> loc,
                                  ArrayRef<int64_t> scores, AdaptorT adaptor) {
  if (failed(verifyLabelShape(loc, scores, adaptor.getLabels())))
    return failure();
  if (Value weights = adaptor.getWeights())
    if (shapeOf(weights) != ArrayRef<int64_t>(scores[1]))
      return emitOptionalError(loc, "expected ", scores[1],
                               " class weights, found [", shapeOf(weights),
                               "]");
  return success();
}

// Checks that label smoothing is in [0, 1). PyTorch also accepts 1, but the
// loss would then not depend on the labels.
static LogicalResult verifySmoothing(std::optional<Location> loc,
                                     const llvm::APFloat &smoothing) {
  double value = smoothing.convertToDouble();
  if (value >= 0.0 && value < 1.0)
    return success();
  return emitOptionalError(loc, "expected label_smoothing in [0, 1), found ",
                           value);
}

// Returns the shape of the loss: the shape of the labels without a reduction,
// else a scalar.
static Shape lossShape(LossReduction reduction, Value labels) {
  return reduction == LossReduction::None ? Shape(shapeOf(labels)) : Shape();
}

INFER(SoftmaxCrossEntropyLossOp) {
  ArrayRef<int64_t> scores = shapeOf(adaptor.getScores());
  if (failed(verifyLabels(loc, scores, adaptor)) ||
      failed(verifySmoothing(loc, adaptor.getLabelSmoothing())))
    return failure();
  Type element = elementOf(adaptor.getScores());
  (void)infer(results, lossShape(adaptor.getReduction(), adaptor.getLabels()),
              element);
  return infer(results, scores, element);
}

INFER(NLLLossOp) {
  if (failed(verifyLabels(loc, shapeOf(adaptor.getLogProb()), adaptor)))
    return failure();
  return infer(results, lossShape(adaptor.getReduction(), adaptor.getLabels()),
               elementOf(adaptor.getLogProb()));
}

INFER(SoftmaxCrossEntropyLossGradOp) {
  ArrayRef<int64_t> scores = shapeOf(adaptor.getLogProb());
  if (failed(verifyLabels(loc, scores, adaptor)) ||
      failed(verifySmoothing(loc, adaptor.getLabelSmoothing())))
    return failure();
  Shape expected = lossShape(adaptor.getReduction(), adaptor.getLabels());
  if (shapeOf(adaptor.getDLoss()) != ArrayRef<int64_t>(expected))
    return emitOptionalError(loc, "expected d_loss of shape [",
                             ArrayRef<int64_t>(expected), "], found [",
                             shapeOf(adaptor.getDLoss()), "]");
  return infer(results, scores, elementOf(adaptor.getLogProb()));
}

LogicalResult NLLLossGradOp::verify() {
  if (failed(verifyLabels(getLoc(), shapeOf(getDLogProb()), *this)))
    return failure();
  Shape expected = lossShape(getReduction(), getLabels());
  if (shapeOf(getDLoss()) != ArrayRef<int64_t>(expected))
    return emitOpError("expected d_loss of shape [")
           << ArrayRef<int64_t>(expected) << "], found [" << shapeOf(getDLoss())
           << "]";
  return success();
}

INFER(AccuracyOp) {
  ArrayRef<int64_t> scores = shapeOf(adaptor.getScores());
  if (failed(verifyLabelShape(loc, scores, adaptor.getLabels())))
    return failure();
  if (scores[1] > kMaxAccuracyClasses)
    return emitOptionalError(loc, "expected at most ", kMaxAccuracyClasses,
                             " classes, found ", scores[1]);
  return infer(results, Shape(shapeOf(adaptor.getLabels())),
               Float32Type::get(context));
}
