// Imports losses over class labels, MSELoss, and their gradients.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Ops/Training/LossAttributes.h"

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

// Marks input 1 as labels: each element is a class or ignore_index. Reports an
// error unless the labels are int32 or int64.
static LogicalResult markLabels(NodeImporter &node,
                                ArrayRef<NamedAttribute> attributes) {
  Value labels = node.operand(1);
  ArrayRef<int64_t> scores = node.operandShape(0);
  if (!labels || scores.size() < 2)
    return success(); // the op reports the error
  node.getFunction().markLabel(labels);
  IndexBox box = createWholeBox(NodeImporter::shapeOf(labels), scores[1]);
  box.isLabel = true;
  for (NamedAttribute attribute : attributes)
    if (attribute.getName() == "ignore_index")
      box.ignored = cast<IntegerAttr>(attribute.getValue()).getInt();
  return markIndices(node, 1, box);
}

static LogicalResult importSoftmaxCrossEntropyLoss(NodeImporter &node) {
  node.setPhase(Phase::Loss);
  Value labels = node.operand(1);
  SmallVector<NamedAttribute> attributes = readLossAttributes(node);
  if (failed(markLabels(node, attributes)))
    return failure();
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
  if (failed(markLabels(node, attributes)))
    return failure();
  auto op = node.create<NLLLossOp>({node.operand(0), labels, node.operand(2)},
                                   attributes);
  return op ? node.define(0, op.getLoss()) : failure();
}

// Imports MSELoss(x, target), which no standard defines. Computed as in
// PyTorch.
static LogicalResult importMSELoss(NodeImporter &node) {
  node.setPhase(Phase::Loss);
  FailureOr<LossReduction> reduction = readLossReduction(node);
  if (failed(reduction))
    return failure();
  if (node.operandShape(0) != node.operandShape(1))
    return node.invalid("expected inputs of equal shapes" + node.found({0, 1}));
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

// Creates the loss of a com.microsoft node with inputs (scores, labels,
// weights, ignore_index); null after an error.
template <typename OpT>
static OpT createInternalLoss(NodeImporter &node) {
  node.setPhase(Phase::Loss);
  auto attributes = readInternalLossAttributes(node, 3);
  if (failed(attributes))
    return {};
  Value labels = node.operand(1);
  if (failed(markLabels(node, *attributes)))
    return {};
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

// Reports an error if attribute 'output_type' differs from the element type of
// the scores.
static LogicalResult checkOutputType(NodeImporter &node) {
  Type input = node.operandType(0).getElementType();
  FailureOr<Type> type = node.elementType("output_type", input);
  if (failed(type))
    return failure();
  if (*type != input)
    return node.unsupported(
        "expected attribute 'output_type' to be the type of the input, found " +
        printElementType(*type) + node.found({0}));
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
    return node.invalid("expected one ignore_index" +
                        node.found({ignoreIndex}));
  attributes.push_back(node.attribute("ignore_index", index->front()));
  return attributes;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

static LogicalResult defineLossGrad(NodeImporter &node,
                                    ArrayRef<Value> operands,
                                    ArrayRef<NamedAttribute> attributes) {
  auto op = node.create<SoftmaxCrossEntropyLossGradOp>(operands, attributes);
  return op ? node.define(0, op.getDScores()) : failure();
}

// Creates dY, the gradient of the loss, which is 1, for nodes of tools that
// leave out dY.
static Value createSeed(NodeImporter &node, Type element) {
  node.setPhase(Phase::Backward);
  auto seed =
      node.create<GradientSeedOp>({}, {}, RankedTensorType::get({}, element));
  return seed ? seed.getOutput() : Value();
}

static StringRef getInputOf(const proto::NodeProto &node, int index) {
  return index < node.input_size() ? StringRef(node.input(index)) : StringRef();
}

static std::string getReduction(const proto::NodeProto &node) {
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == "reduction")
      return attribute.s();
  return "mean";
}

// Checks attribute 'reduction' of a gradient node without dY. The node must
// agree with `loss`, the forward node, if known.
static LogicalResult checkReductions(NodeImporter &node,
                                     const proto::NodeProto *loss) {
  std::string reduction = getReduction(node.getNode());
  if (reduction == "none")
    return node.unsupported(
        "the gradient of each sample's loss is absent; expected 'reduction' "
        "mean or sum, or the gradient as input 0");
  if (loss && getReduction(*loss) != reduction)
    return node.invalid("attribute 'reduction' is " + reduction +
                        ", expected " + getReduction(*loss) +
                        " as in the loss node '" + getNodeName(*loss) + "'");
  return success();
}

// Checks a gradient node (log_prob, labels) without dY, as some tools write.
// The node that computes input 0 tells if input 0 is log_prob.
static LogicalResult checkSeedless(NodeImporter &node) {
  StringRef logProb = node.getInputName(0), labels = node.getInputName(1);
  if (isa<FloatType>(node.operandType(1).getElementType()))
    return node.invalid(
        "expected log-probabilities and integer labels as the two inputs" +
        node.found({0, 1}));
  const Graph &graph = node.getFunction().getGraph();
  const proto::NodeProto *producer = graph.getProducer(logProb);
  if (!producer || producer->op_type() == "LogSoftmax")
    return checkReductions(node, nullptr);
  std::string by = "'" + getNodeName(*producer) + "'";
  bool isLoss = producer->op_type() == "SoftmaxCrossEntropyLoss";
  if (!isLoss || producer->output_size() < 2 || producer->output(1) != logProb)
    return node.invalid("expected log-probabilities and labels as its two "
                        "inputs, found '" +
                        logProb + "', " +
                        (isLoss ? "the loss of node " + by
                                : "an output of node " + by + " (" +
                                      getOpName(*producer) + ")"));
  if (getInputOf(*producer, 1) != labels)
    return node.invalid("expected the labels '" + getInputOf(*producer, 1) +
                        "' of node " + by + ", found '" + labels + "'");
  if (!getInputOf(*producer, 2).empty())
    return node.unsupported(
        "node " + by +
        " has class weights, but the gradient node has none; expected the "
        "inputs dY, log_prob, labels and weights");
  return checkReductions(node, producer);
}

static LogicalResult importLossGrad(NodeImporter &node) {
  if (node.getNumInputs() > 2)
    return defineLossGrad(
        node,
        {node.operand(0), node.operand(1), node.operand(2), node.operand(3)},
        readLossAttributes(node));
  if (failed(checkSeedless(node)))
    return failure();
  Value logProb = node.operand(0);
  Value seed = createSeed(node, elementTypeOf(logProb));
  if (!seed)
    return failure();
  return defineLossGrad(node, {seed, logProb, node.operand(1), Value()},
                        readLossAttributes(node));
}

// Imports SoftmaxCrossEntropyLossInternalGrad, which has ignore_index as an
// input.
static LogicalResult importInternalLossGrad(NodeImporter &node) {
  auto attributes = readInternalLossAttributes(node, 4);
  if (failed(attributes))
    return failure();
  return defineLossGrad(
      node,
      {node.operand(0), node.operand(1), node.operand(2), node.operand(3)},
      *attributes);
}

// Returns the MSELoss node with the same two inputs as the gradient node, in
// any order; null if there is none.
static const proto::NodeProto *findMSELoss(NodeImporter &node) {
  StringRef own[] = {node.getInputName(0), node.getInputName(1)};
  for (const proto::NodeProto *other :
       node.getFunction().getGraph().getNodes()) {
    StringRef first = getInputOf(*other, 0), second = getInputOf(*other, 1);
    if (other->op_type() == "MSELoss" &&
        ((first == own[0] && second == own[1]) ||
         (first == own[1] && second == own[0])))
      return other;
  }
  return nullptr;
}

// Imports MSELossGrad(x, target), which no standard defines: the gradient of x
// for a dY of 1.
static LogicalResult importMSELossGrad(NodeImporter &node) {
  FailureOr<LossReduction> reduction = readLossReduction(node);
  if (failed(reduction))
    return failure();
  if (node.operandShape(0) != node.operandShape(1))
    return node.invalid("expected inputs of equal shapes" + node.found({0, 1}));
  const proto::NodeProto *loss = findMSELoss(node);
  if (loss && getInputOf(*loss, 0) != node.getInputName(0))
    return node.invalid(
        "expected the prediction first and its target second, as in node '" +
        getNodeName(*loss) + "', found '" + node.getInputName(0) + "' and '" +
        node.getInputName(1) + "'; swap the two inputs");
  if (failed(checkReductions(node, loss)))
    return failure();
  Value x = node.operand(0);
  Type element = elementTypeOf(x);
  Value seed = createSeed(node, element);
  if (!seed)
    return failure();
  double factor = *reduction == LossReduction::Mean
                      ? 2.0 / NodeImporter::typeOf(x).getNumElements()
                      : 2.0;
  Value scaled =
      node.emit<MulOp>({seed, numberConstant(node, factor, element)});
  Value difference = node.emit<SubOp>({x, node.operand(1)});
  return node.define(0, node.emit<MulOp>({difference, scaled}));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getLossOps() {
  static const OpEntry entries[] = {
      {"", "MSELoss", 1, kNoEnd, 2, 2, 1, importMSELoss},
      {"", "MSELossGrad", 1, kNoEnd, 2, 2, 1, importMSELossGrad},
      {"", "NegativeLogLikelihoodLoss", 12, kNoEnd, 2, 3, 1, importNLLLoss},
      {"", "SoftmaxCrossEntropyLoss", 12, kNoEnd, 2, 3, 2,
       importSoftmaxCrossEntropyLoss},
      {kMicrosoft, "NegativeLogLikelihoodLossInternal", 1, kNoEnd, 2, 4, 1,
       importInternalNLLLoss},
      {kMicrosoft, "NegativeLogLikelihoodLossInternal2", 1, kNoEnd, 2, 4, 1,
       importInternalNLLLoss},
      {kMicrosoft, "SoftmaxCrossEntropyLossGrad", 1, kNoEnd, 2, 4, 1,
       importLossGrad},
      {kMicrosoft, "SoftmaxCrossEntropyLossInternal", 1, kNoEnd, 2, 4, 2,
       importSoftmaxCrossEntropyLossInternal},
      {kMicrosoft, "SoftmaxCrossEntropyLossInternalGrad", 1, kNoEnd, 3, 5, 1,
       importInternalLossGrad},
  };
  return entries;
}
