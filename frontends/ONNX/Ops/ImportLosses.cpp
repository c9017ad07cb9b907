// Losses over class labels.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Assemble.h"
#include "frontends/ONNX/Ops/LossAttributes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

static FailureOr<LossReduction> readLossReduction(NodeImporter &node) {
  std::string word = node.string("reduction", "mean");
  if (auto reduction = symbolizeLossReduction(word))
    return *reduction;
  return node.invalid("attribute 'reduction' is '" + word +
                      "', expected mean, sum or none");
}

SmallVector<NamedAttribute>
mpc::onnx_frontend::readLossAttributes(NodeImporter &node) {
  LossReduction reduction =
      readLossReduction(node).value_or(LossReduction::Mean);
  SmallVector<NamedAttribute> attributes = {node.attribute(
      "reduction", LossReductionAttr::get(node.getContext(), reduction))};
  if (node.hasAttribute("ignore_index"))
    attributes.push_back(
        node.attribute("ignore_index", node.integer("ignore_index", 0)));
  return attributes;
}

// Labels name classes, or are the ignored one.
static void markLabels(NodeImporter &node,
                       ArrayRef<NamedAttribute> attributes) {
  Value labels = node.operand(1);
  ArrayRef<int64_t> scores = node.operandShape(0);
  if (!labels || scores.size() < 2)
    return;
  node.getFunction().markLabel(labels);
  IndexBox box = IndexBox::whole(NodeImporter::shapeOf(labels), scores[1]);
  box.isLabel = true;
  for (NamedAttribute attribute : attributes)
    if (attribute.getName() == "ignore_index")
      box.ignored = cast<IntegerAttr>(attribute.getValue()).getInt();
  node.getFunction().markIndices(node.getLocation(), labels, box);
}

static LogicalResult importSoftmaxCrossEntropyLoss(NodeImporter &node) {
  node.setPhase(Phase::Loss);
  Value labels = node.operand(1);
  SmallVector<NamedAttribute> attributes = readLossAttributes(node);
  markLabels(node, attributes);
  auto op = node.create<SoftmaxCrossEntropyLossOp>(
      {node.operand(0), labels, node.operand(2)}, attributes);
  if (!op)
    return failure();
  (void)node.define(0, op.getLoss());
  return node.define(1, op.getLogProb());
}

static LogicalResult importNLLLoss(NodeImporter &node) {
  node.setPhase(Phase::Loss);
  Value labels = node.operand(1);
  SmallVector<NamedAttribute> attributes = readLossAttributes(node);
  markLabels(node, attributes);
  auto op = node.create<NLLLossOp>({node.operand(0), labels, node.operand(2)},
                                   attributes);
  return op ? node.define(0, op.getLoss()) : failure();
}

// MSELoss(x, target): of no standard, as PyTorch's.
static LogicalResult importMSELoss(NodeImporter &node) {
  node.setPhase(Phase::Loss);
  FailureOr<LossReduction> reduction = readLossReduction(node);
  if (failed(reduction))
    return failure();
  if (node.operandShape(0) != node.operandShape(1))
    return node.invalid("expected inputs of equal shapes");
  Value difference = node.emit<SubOp>({node.operand(0), node.operand(1)});
  Value square = node.emit<MulOp>({difference, difference});
  if (!square || *reduction == LossReduction::None)
    return node.define(0, square);
  auto axes =
      llvm::to_vector(llvm::seq<int64_t>(0, node.operandShape(0).size()));
  return node.define(0, *reduction == LossReduction::Mean
                            ? reduce<ReduceMeanOp>(node, square, axes, false)
                            : reduce<ReduceSumOp>(node, square, axes, false));
}

// com.microsoft, (scores, labels, weights, ignore_index): null after an error.
template <typename OpT>
static OpT createInternalLoss(NodeImporter &node) {
  node.setPhase(Phase::Loss);
  auto attributes = readInternalLossAttributes(node, 3);
  if (failed(attributes))
    return {};
  Value labels = node.operand(1);
  markLabels(node, *attributes);
  return node.create<OpT>({node.operand(0), labels, node.operand(2)},
                          *attributes);
}

static LogicalResult importSoftmaxCrossEntropyLossInternal(NodeImporter &node) {
  auto op = createInternalLoss<SoftmaxCrossEntropyLossOp>(node);
  if (!op)
    return failure();
  (void)node.define(0, op.getLoss());
  return node.define(1, op.getLogProb());
}

static LogicalResult importInternalNLLLoss(NodeImporter &node) {
  auto op = createInternalLoss<NLLLossOp>(node);
  return op ? node.define(0, op.getLoss()) : failure();
}

// output_type, where it is given, must be the type the loss has anyway.
static LogicalResult checkOutputType(NodeImporter &node) {
  Type input = node.operandType(0).getElementType();
  FailureOr<Type> type = node.elementType("output_type", input);
  if (failed(type))
    return failure();
  if (*type != input)
    return node.unsupported(
        "attribute 'output_type' other than the input's type is not supported");
  return success();
}

FailureOr<SmallVector<NamedAttribute>>
mpc::onnx_frontend::readInternalLossAttributes(NodeImporter &node,
                                               unsigned ignoreIndex) {
  if (failed(checkOutputType(node)))
    return failure();
  SmallVector<NamedAttribute> attributes = readLossAttributes(node);
  if (!node.hasInput(ignoreIndex))
    return attributes;
  auto index = node.integers(ignoreIndex, "ignore_index");
  if (failed(index))
    return failure();
  if (index->size() != 1)
    return node.invalid("expected one ignore_index");
  attributes.push_back(node.attribute("ignore_index", index->front()));
  return attributes;
}

ArrayRef<OpEntry> mpc::onnx_frontend::getLossOps() {
  static const OpEntry entries[] = {
      {"", "MSELoss", 1, kNoEnd, 2, 2, 1, importMSELoss},
      {"", "NegativeLogLikelihoodLoss", 12, kNoEnd, 2, 3, 1, importNLLLoss},
      {"", "SoftmaxCrossEntropyLoss", 12, kNoEnd, 2, 3, 2,
       importSoftmaxCrossEntropyLoss},
      {kMicrosoft, "NegativeLogLikelihoodLossInternal", 1, kNoEnd, 2, 4, 1,
       importInternalNLLLoss},
      {kMicrosoft, "NegativeLogLikelihoodLossInternal2", 1, kNoEnd, 2, 4, 1,
       importInternalNLLLoss},
      {kMicrosoft, "SoftmaxCrossEntropyLossInternal", 1, kNoEnd, 2, 4, 2,
       importSoftmaxCrossEntropyLossInternal},
  };
  return entries;
}
