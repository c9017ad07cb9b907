// Imports an optimizer graph over single tensors, beside the training graph.
// The optimizer nodes read parameters and gradients by the names of the
// training graph.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/TensorOptimizer.h"

#include "frontends/ONNX/Training/OptimizerNodes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;

bool mpc::onnx_frontend::isOverTensors(const Graph &graph) {
  return llvm::any_of(graph.getNodes(), [](const proto::NodeProto *node) {
    return readOptimizerNode(*node).has_value();
  });
}

namespace {
/// Builds @update from an optimizer graph.
class TensorOptimizerImporter {
public:
  TensorOptimizerImporter(ModuleImporter &module, const Graph &graph,
                          ArrayRef<Accumulation> accumulations)
      : module(module), graph(graph), accumulations(accumulations),
        function(module, graph, kUpdateFunction) {
    function.defaultPhase = Phase::Optimizer;
    for (const proto::ValueInfoProto *input : graph.getInputs())
      inputs[input->name()] = input;
  }

  Error run();

private:
  struct Update {
    VariableOp variable;
    StringRef value;
  };

  void addLearningRate();
  void bindNames();
  Error readNode(const proto::NodeProto &node, const OptimizerNode &optimizer);
  Error readState(const proto::NodeProto &node, StringRef name, StringRef value,
                  VariableOp parameter);
  void bindScalars(const proto::NodeProto &node,
                   const OptimizerNode &optimizer);
  /// Returns `value`, reshaped to (1) if the graph declares `input` with one
  /// axis.
  Value shapeLike(Value value, StringRef input);
  bool isInput(StringRef name) const { return inputs.contains(name); }

  ModuleImporter &module;
  const Graph &graph;
  ArrayRef<Accumulation> accumulations;
  FunctionImporter function;
  Value learningRate, count, nextCount;
  /// Parameters by their names in the graph.
  llvm::StringMap<VariableOp> parameters;
  llvm::StringMap<const proto::ValueInfoProto *> inputs;
  llvm::StringSet<> bound;
  std::vector<Update> updates;
};
} // namespace

// Binds the name of each parameter, and the names that tools give the gradient,
// such as w_grad.
void TensorOptimizerImporter::bindNames() {
  for (Accumulation accumulation : accumulations) {
    const std::string &name = accumulation.name;
    parameters[name] = accumulation.parameter;
    function.bindState(name, accumulation.parameter);
    bound.insert(name);
    for (const std::string &gradient :
         {accumulation.gradient, name + "_grad", name + ".grad",
          name + "_gradient", name + ".gradient",
          name + "_grad.accumulation.buffer"}) {
      function.bindState(gradient, accumulation.buffer);
      bound.insert(gradient);
    }
  }
}

Value TensorOptimizerImporter::shapeLike(Value value, StringRef input) {
  const auto &declared = inputs.lookup(input)->type().tensor_type();
  if (declared.shape().dim_size() != 1)
    return value;
  auto type = NodeImporter::typeOf(value).clone(ArrayRef<int64_t>(1));
  return ReshapeOp::create(function.getBuilder(), value.getLoc(), type, value);
}

void TensorOptimizerImporter::bindScalars(const proto::NodeProto &node,
                                          const OptimizerNode &optimizer) {
  if (optimizer.rate >= 0)
    if (StringRef name = node.input(optimizer.rate);
        isInput(name) && bound.insert(name).second)
      function.bind(name, shapeLike(learningRate, name));
  if (optimizer.count >= 0)
    if (StringRef name = node.input(optimizer.count);
        isInput(name) && bound.insert(name).second)
      function.bind(name,
                    shapeLike(optimizer.firstCount ? nextCount : count, name));
}

// Creates a state of `parameter`, with the parameter's type. The initial value
// is the graph's, or zero.
Error TensorOptimizerImporter::readState(const proto::NodeProto &node,
                                         StringRef name, StringRef value,
                                         VariableOp parameter) {
  const ImportedValue &entry = function.lookup(name);
  if (entry.failed || (!entry.constant && !isInput(name)))
    return Error::success(); // the builder reports bad operands
  HostTensor init = entry.constant ? *entry.constant : HostTensor();
  VariableOp variable =
      module.getVariable(name, Role::OptimizerState, parameter.getTensorType(),
                         entry.constant ? &init : nullptr);
  if (variable.getRole() != Role::OptimizerState ||
      variable.getTensorType() != parameter.getTensorType())
    return graph.getModel().error(
        ErrorKind::Unsupported,
        "node '" + getNodeName(node) + "': '" + name +
            "' must be optimizer state of type " +
            printTensorType(parameter.getTensorType()) +
            " for one parameter, but is also state of another parameter, or a "
            "value of the training graph");
  function.bindState(name, variable);
  bound.insert(name);
  updates.push_back({variable, value});
  return Error::success();
}

Error TensorOptimizerImporter::readNode(const proto::NodeProto &node,
                                        const OptimizerNode &optimizer) {
  if (optimizer.parameters.empty())
    return graph.getModel().error(ErrorKind::Unsupported,
                                  "node '" + getNodeName(node) +
                                      "' has no output for a new parameter");
  bindScalars(node, optimizer);
  // An optimizer node lists its states in the order of its parameters.
  for (auto [i, place] : llvm::enumerate(optimizer.parameters)) {
    StringRef name = node.input(place.input);
    VariableOp parameter = parameters.lookup(name);
    if (!parameter)
      return graph.getModel().error(
          ErrorKind::InvalidInput,
          "node '" + getNodeName(node) + "': '" + name +
              "' is no parameter with a gradient in the training graph");
    updates.push_back({parameter, node.output(place.output)});
  }
  size_t count = optimizer.parameters.size();
  size_t each = 0;
  for (const OptimizerNode::Update &place : optimizer.states) {
    if (place.input == optimizer.count)
      continue; // mpc keeps the count of updates
    VariableOp parameter = parameters.lookup(
        node.input(optimizer.parameters[each++ % count].input));
    if (Error error = readState(node, node.input(place.input),
                                node.output(place.output), parameter))
      return error;
  }
  return Error::success();
}

// Adds the learning rate as an input, unless all nodes read constant rates.
void TensorOptimizerImporter::addLearningRate() {
  bool reads = llvm::any_of(graph.getNodes(), [&](const auto *node) {
    std::optional<OptimizerNode> optimizer = readOptimizerNode(*node);
    return optimizer && optimizer->rate >= 0 &&
           isInput(node->input(optimizer->rate));
  });
  if (!reads)
    return graph.getModel().note(
        "the optimizer graph fixes the learning rate; --lr does not change it");
  auto scalar = RankedTensorType::get({}, function.getBuilder().getF32Type());
  learningRate = function.addInput(kLearningRateInput, scalar, Role::Scalar);
}

Error TensorOptimizerImporter::run() {
  // mpc's own learning rate and count replace the inputs that optimizer nodes
  // read as rate and count.
  addLearningRate();
  count = function.getState(module.getCounter(kStepVariable));
  nextCount = addIncrement(function, kStepVariable);
  bindNames();
  // Find the updates of every node, and bind gradients.
  for (const proto::NodeProto *node : graph.getNodes())
    if (std::optional<OptimizerNode> optimizer = readOptimizerNode(*node))
      if (Error error = readNode(*node, *optimizer))
        return error;
  // Every input must be bound now: mpc would have no value for another input.
  for (const proto::ValueInfoProto *input : graph.getInputs())
    if (!bound.contains(input->name()))
      return graph.getModel().error(
          ErrorKind::Unsupported,
          "input '" + input->name() +
              "' is neither a parameter, nor a gradient such as w_grad, nor "
              "the learning rate, step count or state of an optimizer");
  // Import only the nodes that new values need.
  SmallVector<StringRef> values;
  for (const Update &update : updates)
    values.push_back(update.value);
  function.importNodes(graph.getNodesFor(values));
  if (module.hasFailed())
    return Error::success();
  for (Update update : updates) {
    Value value = function.materialize(update.value, "");
    if (value && value.getType() != update.variable.getType())
      return graph.getModel().error(
          ErrorKind::InvalidInput,
          "'" + update.value + "' is " + printTensorType(typeOf(value)) +
              ", but updates '" + update.variable.getSymName() + "' of type " +
              printTensorType(update.variable.getTensorType()));
    if (value && failed(function.addUpdate(update.variable, value)))
      return graph.getModel().error(
          ErrorKind::InvalidInput,
          "'" + update.variable.getSymName() +
              "' is updated twice, the second time by '" + update.value + "'");
  }
  // The sums of gradients restart from zero in the next step.
  if (Error error = resetAccumulators(function, accumulations))
    return error;
  function.finish();
  return Error::success();
}

Error mpc::onnx_frontend::importTensorOptimizer(
    ModuleImporter &module, const Graph &graph,
    ArrayRef<Accumulation> accumulations) {
  return TensorOptimizerImporter(module, graph, accumulations).run();
}
