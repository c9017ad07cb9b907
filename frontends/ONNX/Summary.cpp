// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Summary.h"

#include "frontends/ONNX/Importer/Shapes.h"
#include "frontends/ONNX/Model/Error.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Repair/Origins.h"
#include "frontends/ONNX/Training/Artifacts.h"
#include "frontends/ONNX/Training/OptimizerNodes.h"
#include "frontends/ONNX/Training/StepGraph.h"
#include "frontends/ONNX/Training/StepValues.h"
#include "frontends/ONNX/Training/Trainable.h"
#include "frontends/ONNX/Training/WeightedOps.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

std::vector<std::pair<std::string, std::string>>
mpc::onnx_frontend::listInputs(const Model &model) {
  std::vector<std::pair<std::string, std::string>> inputs;
  for (const proto::ValueInfoProto &input : model.getProto().graph().input())
    inputs.emplace_back(input.name(), printType(model, input.type()));
  return inputs;
}

// Adds the inputs of `node` that act as weights to `weights`. `layers` collects
// the outputs of contractions, because an operand added to such an output is a
// bias.
static void addWeights(const proto::NodeProto &node, llvm::StringSet<> &layers,
                       llvm::StringSet<> &weights) {
  StringRef op = node.op_type();
  if (isSum(op)) {
    for (int i : {0, 1})
      if (node.input_size() == 2 && layers.contains(node.input(i)))
        weights.insert(node.input(1 - i));
    return;
  }
  if (isAccumulator(node) && node.input_size() > 0)
    weights.insert(node.input(0));
  const WeightedOp *layer = findWeightedOp(op);
  if (!layer)
    return;
  // Skip input 0, which is a layer's data. For some ops the table of weights
  // lists input 0, which may be a weight.
  for (int i : layer->weights)
    if (i > 0 && i < node.input_size())
      weights.insert(node.input(i));
  // Add the running mean and variance: the table of weights lacks them.
  if (op == "BatchNormalization")
    for (int i = 3; i < node.input_size(); ++i)
      weights.insert(node.input(i));
  if (layer->kind == WeightedOp::Kind::Contraction && node.output_size() > 0)
    layers.insert(node.output(0));
}

llvm::StringSet<> mpc::onnx_frontend::listWeightInputs(const Model &model) {
  const proto::GraphProto &graph = model.getProto().graph();
  llvm::StringSet<> layers, read, weights;
  for (const proto::NodeProto &node : graph.node())
    addWeights(node, layers, read);
  for (const proto::ValueInfoProto &input : graph.input())
    if (read.contains(input.name()))
      weights.insert(input.name());
  return weights;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

namespace {
/// The readers of each value, with the index of the input.
using Readers = llvm::StringMap<
    llvm::SmallVector<std::pair<const proto::NodeProto *, int>, 2>>;
} // namespace

static Expected<mlir::RankedTensorType>
getType(const Model &model, const proto::TensorProto &tensor) {
  std::string what = "initializer '" + tensor.name() + "'";
  Expected<mlir::Type> element = model.getElementType(tensor.data_type(), what);
  if (!element)
    return element.takeError();
  llvm::SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  int64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || llvm::MulOverflow(count, extent, count))
      return model.error(ErrorKind::InvalidInput,
                         what +
                             ": expected extents of at least 0 whose product "
                             "fits 64 bits, found " +
                             printShape(shape));
  return mlir::RankedTensorType::get(shape, *element);
}

static bool isFloat(mlir::RankedTensorType type) {
  return mlir::isa<mlir::FloatType>(type.getElementType());
}

// Records the inputs of `node` and of nodes in its bodies.
static void addReaders(const proto::NodeProto &node, Readers &readers) {
  for (int i = 0; i < node.input_size(); ++i)
    readers[node.input(i)].push_back({&node, i});
  for (const proto::GraphProto *body : getBodies(node))
    for (const proto::NodeProto &nested : body->node())
      addReaders(nested, readers);
}

// Lists nodes: "Div 'scale', Sub 'shift' and 2 more".
static std::string
listNodes(llvm::ArrayRef<std::pair<const proto::NodeProto *, int>> readers) {
  std::vector<std::string> nodes;
  for (auto [node, unused] : readers)
    nodes.push_back(getOpName(*node) + " '" + getNodeName(*node) + "'");
  return listFirst(nodes, 3);
}

// Explains why an initializer is not trained. `evidence` is the entry of
// Trainables::evidence.
static std::string
explain(mlir::RankedTensorType type, StringRef origin, StringRef evidence,
        llvm::ArrayRef<std::pair<const proto::NodeProto *, int>> readers) {
  if (!isFloat(type))
    return "no floats";
  for (auto [node, index] : readers)
    if (node->op_type() == "BatchNormalization" && (index == 3 || index == 4))
      return std::string(index == 3 ? "running mean" : "running variance") +
             " of '" + getNodeName(*node) + "', which training updates";
  if (origin == kFoldedOrigin)
    return "the exporter computed it from constants";
  if (!origin.empty())
    return "a " + origin.str() + " to PyTorch's exporter";
  if (readers.empty())
    return "nothing reads it";
  std::string reading = ": read by " + listNodes(readers);
  if (!evidence.empty())
    return evidence.str() + reading;
  return (type.getShape().empty() ? "a scalar, so a constant"
                                  : "not a layer's weight") +
         reading;
}

// Fails if the graph is a training graph, which has its own training step.
static Error checkForward(const Model &model, const Graph &graph) {
  std::vector<std::string> notes;
  Expected<std::optional<TrainingStep>> step =
      findTrainingStep(graph, ImportOptions(), notes);
  bool isStep = step && *step;
  llvm::consumeError(step.takeError());
  if (!isStep && !isTrainingArtifact(model) &&
      model.getProto().training_info_size() == 0)
    return Error::success();
  return model.error(ErrorKind::Unsupported,
                     "a training graph says itself what it updates; mpc train "
                     "lists it");
}

Expected<std::vector<ParameterSummary>>
mpc::onnx_frontend::describeParameters(const Model &model) {
  const proto::GraphProto &file = model.getProto().graph();
  // Only check the graph: an import would need all dimensions.
  Expected<Graph> graph = Graph::check(model, {&file});
  if (!graph)
    return graph.takeError();
  if (Error error = checkForward(model, *graph))
    return error;
  // Find what mpc train would train, and the readers of each value.
  llvm::StringMap<std::string> origins = findOrigins(*graph);
  const Trainables found = findTrainable(*graph, {}, origins);
  Readers readers;
  for (const proto::NodeProto *node : graph->getNodes())
    addReaders(*node, readers);
  std::vector<ParameterSummary> parameters;
  auto add = [&](StringRef name, const proto::TensorProto &tensor) -> Error {
    Expected<mlir::RankedTensorType> type = getType(model, tensor);
    if (!type)
      return type.takeError();
    ParameterSummary parameter{name.str(), *type, false, ""};
    parameter.isTrained = isFloat(*type) && found.parameters.contains(name);
    if (!parameter.isTrained)
      parameter.why =
          explain(*type, origins.lookup(name), found.evidence.lookup(name),
                  readers.lookup(name));
    parameters.push_back(std::move(parameter));
    return Error::success();
  };
  // Keep the order of the file. List a Constant only if it is trained.
  for (const proto::TensorProto &tensor : file.initializer())
    if (Error error = add(tensor.name(), tensor))
      return error;
  for (const proto::NodeProto &node : file.node())
    if (const proto::TensorProto *tensor = findConstantTensor(node);
        tensor && found.parameters.contains(node.output(0)))
      if (Error error = add(node.output(0), *tensor))
        return error;
  return parameters;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

Expected<std::vector<LayerSummary>>
mpc::onnx_frontend::describeLayers(const Model &model) {
  const proto::GraphProto &file = model.getProto().graph();
  Expected<Graph> graph = Graph::check(model, {&file});
  if (!graph)
    return graph.takeError();
  // Use the declared types: without an import, no other types are known.
  llvm::StringMap<std::string> types;
  for (const auto *values : {&file.value_info(), &file.output()})
    for (const proto::ValueInfoProto &value : *values)
      if (value.type().has_tensor_type() &&
          value.type().tensor_type().has_shape())
        types[value.name()] = printType(model, value.type());
  std::vector<LayerSummary> layers;
  for (const proto::NodeProto *node : graph->getNodes()) {
    if (node->op_type() == "Constant" || node->output_size() == 0)
      continue;
    LayerSummary layer;
    layer.name = getNodeName(*node);
    layer.op = getOpName(*node);
    layer.output = node->output(0);
    layer.type = types.lookup(node->output(0));
    // A node may read a parameter twice; list it once.
    for (StringRef name : getReadValues(*node)) {
      const proto::TensorProto *tensor = graph->getInitializer(name);
      if (!tensor || llvm::is_contained(layer.parameters, name))
        continue;
      Expected<mlir::RankedTensorType> type = getType(model, *tensor);
      if (!type)
        return type.takeError();
      layer.parameters.push_back(name.str());
      layer.elements += isFloat(*type) ? type->getNumElements() : 0;
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

//===----------------------------------------------------------------------===//
// Optimizer graphs
//===----------------------------------------------------------------------===//

namespace {
/// The inputs of an optimizer graph, and lists made of inputs.
class GivenTensors {
public:
  explicit GivenTensors(const proto::GraphProto &graph) {
    for (const proto::ValueInfoProto &input : graph.input())
      given.insert(input.name());
  }
  bool contains(StringRef name) const { return given.contains(name); }
  /// Records the outputs of a node that makes lists of inputs, or clips the
  /// norm of a list.
  void pass(const proto::NodeProto &node) {
    static const llvm::StringSet<> known = {"InplaceClipGradNorm",
                                            "SequenceConstruct", "SequenceAt",
                                            "SequenceInsert", "Identity"};
    if (known.contains(node.op_type()) && node.input_size() > 0 &&
        contains(node.input(0)))
      for (const std::string &output : node.output())
        given.insert(output);
  }

private:
  llvm::StringSet<> given;
};
} // namespace

std::string mpc::onnx_frontend::describeOptimizerGraph(const Model &model) {
  const proto::GraphProto &graph = model.getProto().graph();
  GivenTensors given(graph);
  std::vector<std::string> parameters;
  std::map<std::string, unsigned> ops;
  bool overLists = false;
  for (const proto::NodeProto &node : graph.node()) {
    if (isLossNode(node) || isGradientNode(node))
      return {};
    given.pass(node);
    if (std::optional<int> gradients = findGradientList(node)) {
      if (node.input_size() <= *gradients ||
          !given.contains(node.input(*gradients - 1)) ||
          !given.contains(node.input(*gradients)))
        return {};
      overLists = true;
      ++ops[node.op_type()];
      continue;
    }
    std::optional<OptimizerNode> optimizer = readOptimizerNode(node);
    if (!optimizer)
      continue;
    if (optimizer->parameters.empty())
      return {};
    ++ops[node.op_type()];
    // A graph that computes its own gradients is a training step, not an
    // optimizer graph.
    for (int input : optimizer->gradients)
      if (!given.contains(node.input(input)))
        return {};
    for (const OptimizerNode::Update &place : optimizer->parameters) {
      if (!given.contains(node.input(place.input)))
        return {};
      parameters.push_back("'" + node.input(place.input) + "'");
    }
  }
  if (parameters.empty() && !overLists)
    return {};
  std::string text = "an optimizer graph, of ";
  for (const auto &[op, count] : ops)
    text += (op == ops.begin()->first ? "" : ", ") + op + " x" +
            std::to_string(count);
  if (!parameters.empty())
    text += ", which updates " + listFirst(parameters, 4);
  return text +
         "; it has no loss and no gradients of its own, and goes with "
         "the training graph that has them: mpc train TRAINING_GRAPH "
         "--optimizer-model " +
         model.getPath().str();
}
