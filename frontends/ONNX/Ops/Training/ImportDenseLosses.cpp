// Imports ONNX Runtime's cross entropies from before SoftmaxCrossEntropyLoss
// was in ONNX, and their gradients. The class axis is the last.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Ops/Training/LossAttributes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// The extents of scores [..., classes], flattened to rows.
struct ScoreRows {
  int64_t count, classes;
};
} // namespace

static FailureOr<bool> readIsMean(NodeImporter &node) {
  std::string word = node.string("reduction", "mean");
  if (word == "mean" || word == "sum")
    return word == "mean";
  return node.unsupported("attribute 'reduction' is '" + word +
                          "', expected mean or sum");
}

static FailureOr<ScoreRows> readRows(NodeImporter &node, unsigned scores) {
  ArrayRef<int64_t> shape = node.operandShape(scores);
  if (shape.empty() || llvm::is_contained(shape, 0))
    return node.invalid(
        "expected scores of at least one axis, without empty axes" +
        node.found({scores}));
  int64_t count = 1;
  for (int64_t extent : shape.drop_back())
    count *= extent;
  return ScoreRows{count, shape.back()};
}

// Sums all elements to a scalar.
static Value sumAll(NodeImporter &node, Value value) {
  if (!value || NodeImporter::shapeOf(value).empty())
    return value;
  auto axes = llvm::to_vector(
      llvm::seq<int64_t>(0, NodeImporter::typeOf(value).getRank()));
  return reduce<ReduceSumOp>(node, value, axes, /*keepDims=*/false);
}

static Value multiplyBy(NodeImporter &node, Value value, double factor) {
  if (!value)
    return {};
  return node.emit<MulOp>(
      {value, numberConstant(node, factor, elementTypeOf(value))});
}

//===----------------------------------------------------------------------===//
// Labels as probabilities of all classes
//===----------------------------------------------------------------------===//

// Imports SoftmaxCrossEntropy: (logits, labels) -> (loss, logsoftmax(logits)).
// The loss is -sum(labels * logsoftmax(logits)), divided by the number of rows
// for a mean.
static LogicalResult importSoftmaxCrossEntropy(NodeImporter &node) {
  node.setPhase(Phase::Loss);
  FailureOr<bool> isMean = readIsMean(node);
  FailureOr<ScoreRows> rows = readRows(node, 0);
  if (failed(isMean) || failed(rows))
    return failure();
  if (node.operandShape(0) != node.operandShape(1))
    return node.invalid("expected scores and labels of equal shapes" +
                        node.found({0, 1}));
  int64_t last = node.operandType(0).getRank() - 1;
  Value logProb = node.emit<LogSoftmaxOp>({node.operand(0)},
                                          {node.attribute("axis", last)});
  Value product = node.emit<MulOp>({node.operand(1), logProb});
  double scale = *isMean ? -1.0 / static_cast<double>(rows->count) : -1.0;
  (void)node.define(1, logProb);
  return node.define(0, multiplyBy(node, sumAll(node, product), scale));
}

// Imports SoftmaxCrossEntropyGrad: (dY, log_prob, labels) -> (exp(log_prob) -
// labels) * dY, divided by the number of rows for a mean.
static LogicalResult importSoftmaxCrossEntropyGrad(NodeImporter &node) {
  FailureOr<bool> isMean = readIsMean(node);
  FailureOr<ScoreRows> rows = readRows(node, 1);
  if (failed(isMean) || failed(rows))
    return failure();
  if (node.operandShape(1) != node.operandShape(2))
    return node.invalid("expected scores and labels of equal shapes" +
                        node.found({1, 2}));
  if (node.operandType(0).getNumElements() != 1)
    return node.invalid("expected the gradient of the loss to be one number" +
                        node.found({0}));
  Value probability = node.emit<ExpOp>({node.operand(1)});
  Value difference = node.emit<SubOp>({probability, node.operand(2)});
  double scale = *isMean ? 1.0 / static_cast<double>(rows->count) : 1.0;
  Value dy = multiplyBy(node, node.reshape(node.operand(0), {}), scale);
  return node.define(0, node.emit<MulOp>({difference, dy}));
}

//===----------------------------------------------------------------------===//
// Labels as classes
//===----------------------------------------------------------------------===//

// Reads the labels as [rows] and marks them as class indices.
static FailureOr<Value> readClasses(NodeImporter &node, unsigned scores,
                                    unsigned labels, ScoreRows rows) {
  if (node.operandShape(scores).drop_back() != node.operandShape(labels))
    return node.invalid(
        "expected labels of the shape of the scores without the last axis" +
        node.found({scores, labels}));
  Value value = node.operand(labels);
  node.getFunction().markLabel(value);
  IndexBox box = createWholeBox(NodeImporter::shapeOf(value), rows.classes);
  box.isLabel = true;
  if (failed(markIndices(node, labels, box)))
    return failure();
  return node.reshape(value, {rows.count});
}

// Reads the weights of the samples as [rows]; null if absent.
static FailureOr<Value> readSampleWeights(NodeImporter &node, unsigned weights,
                                          unsigned labels, ScoreRows rows) {
  if (!node.hasInput(weights))
    return Value();
  if (node.operandShape(weights) != node.operandShape(labels))
    return node.invalid("expected a weight for each label" +
                        node.found({labels, weights}));
  return node.reshape(node.operand(weights), {rows.count});
}

static NamedAttribute reductionOf(NodeImporter &node, LossReduction reduction) {
  return node.attribute("reduction",
                        LossReductionAttr::get(node.getContext(), reduction));
}

// Imports SparseSoftmaxCrossEntropy: (logits, labels, sample weights) -> (loss,
// logsoftmax(logits)).
static LogicalResult importSparseCrossEntropy(NodeImporter &node) {
  node.setPhase(Phase::Loss);
  FailureOr<bool> isMean = readIsMean(node);
  FailureOr<ScoreRows> rows = readRows(node, 0);
  if (failed(isMean) || failed(rows))
    return failure();
  FailureOr<Value> labels = readClasses(node, 0, 1, *rows);
  FailureOr<Value> weights = readSampleWeights(node, 2, 1, *rows);
  if (failed(labels) || failed(weights))
    return failure();
  // Weights apply to the loss of each row, before any reduction.
  LossReduction reduction = *isMean ? LossReduction::Mean : LossReduction::Sum;
  if (*weights)
    reduction = LossReduction::None;
  Value scores = node.reshape(node.operand(0), {rows->count, rows->classes});
  auto op = node.create<SoftmaxCrossEntropyLossOp>(
      {scores, *labels, Value()}, reductionOf(node, reduction));
  if (!op)
    return failure();
  SmallVector<int64_t> shape(node.operandShape(0));
  (void)node.define(1, node.reshape(op.getLogProb(), shape));
  if (!*weights)
    return node.define(0, op.getLoss());
  // A weighted mean divides by the sum of the weights.
  Value loss = sumAll(node, node.emit<MulOp>({op.getLoss(), *weights}));
  if (*isMean)
    loss = node.emit<DivOp>({loss, sumAll(node, *weights)});
  return node.define(0, loss);
}

// Imports SparseSoftmaxCrossEntropyGrad: (dY, log_prob, labels, sample weights)
// -> gradient of the logits.
static LogicalResult importSparseCrossEntropyGrad(NodeImporter &node) {
  FailureOr<bool> isMean = readIsMean(node);
  FailureOr<ScoreRows> rows = readRows(node, 1);
  if (failed(isMean) || failed(rows))
    return failure();
  FailureOr<Value> labels = readClasses(node, 1, 2, *rows);
  FailureOr<Value> weights = readSampleWeights(node, 3, 2, *rows);
  if (failed(labels) || failed(weights))
    return failure();
  if (node.operandType(0).getNumElements() != 1)
    return node.invalid("expected the gradient of the loss to be one number" +
                        node.found({0}));
  LossReduction reduction = *isMean ? LossReduction::Mean : LossReduction::Sum;
  Value dy = node.reshape(node.operand(0), {});
  if (*weights) {
    reduction = LossReduction::None;
    if (*isMean)
      dy = node.emit<DivOp>({dy, sumAll(node, *weights)});
    dy = node.emit<MulOp>({*weights, dy});
  }
  if (!dy)
    return failure();
  Value logProb = node.reshape(node.operand(1), {rows->count, rows->classes});
  auto op = node.create<SoftmaxCrossEntropyLossGradOp>(
      {dy, logProb, *labels, Value()}, reductionOf(node, reduction));
  SmallVector<int64_t> shape(node.operandShape(1));
  return op ? node.define(0, node.reshape(op.getDScores(), shape)) : failure();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getDenseLossOps() {
  static const OpEntry entries[] = {
      {kMicrosoft, "SoftmaxCrossEntropy", 1, kNoEnd, 2, 2, 2,
       importSoftmaxCrossEntropy},
      {kMicrosoft, "SoftmaxCrossEntropyGrad", 1, kNoEnd, 3, 3, 1,
       importSoftmaxCrossEntropyGrad},
      {"", "SparseSoftmaxCrossEntropy", 9, kNoEnd, 2, 3, 2,
       importSparseCrossEntropy},
      {"", "SparseSoftmaxCrossEntropyGrad", 9, kNoEnd, 3, 4, 1,
       importSparseCrossEntropyGrad},
  };
  return entries;
}
