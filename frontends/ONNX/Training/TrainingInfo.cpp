// Models that carry their own training step (ModelProto.training_info).
//
// The specification gives the step as a second graph, concatenated with the
// inference graph, and says by name which of its outputs become the next values
// of which initializers. Nothing checks such files before us: bindings are
// checked here as the specification states them.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/TrainingInfo.h"

#include "frontends/ONNX/Ops/Shapes.h"
#include "frontends/ONNX/Training/OptimizerGraph.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

namespace {
/// Builds @step and @eval.
class TrainingInfoImporter {
public:
  TrainingInfoImporter(const Model &model, const ImportOptions &asked)
      : model(model), info(model.getProto().training_info(0)), options(asked),
        module(options, model.getContext()) {
    // The algorithm says itself what is training and what is not.
    options.mode = ImportMode::AsExported;
  }

  Expected<OwningOpRef<ModuleOp>> run();

private:
  Error checkBindings(const Graph &graph);
  Error initialize(const Graph &graph);
  void findTrainingNodes(const Graph &graph);
  void bindStates(FunctionImporter &function);
  Error addInputs(FunctionImporter &function,
                  ArrayRef<const proto::NodeProto *> nodes);
  Error importStep(const Graph &graph);
  Error importEval(const Graph &graph);
  void addUpdates(FunctionImporter &function);

  const Model &model;
  const proto::TrainingInfoProto &info;
  ImportOptions options;
  ModuleImporter module;
  /// What Gradient nodes differentiate, and with respect to what.
  std::vector<StringRef> losses;
  llvm::StringSet<> differentiated, learningRates;
};
} // namespace

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

static bool isOutput(const proto::GraphProto &graph, StringRef name) {
  return llvm::any_of(graph.output(), [&](const proto::ValueInfoProto &value) {
    return value.name() == name;
  });
}

Error TrainingInfoImporter::checkBindings(const Graph &graph) {
  llvm::StringSet<> keys;
  for (const auto &binding : info.update_binding()) {
    StringRef key = binding.key(), value = binding.value();
    if (!graph.getInitializer(key))
      return model.error(ErrorKind::Invalid,
                         "update_binding of '" + key +
                             "': no initializer has that name");
    if (!keys.insert(key).second)
      return model.error(ErrorKind::Invalid,
                         "update_binding of '" + key + "' is given twice");
    if (!isOutput(info.algorithm(), value) &&
        !isOutput(model.getProto().graph(), value))
      return model.error(ErrorKind::Invalid,
                         "update_binding of '" + key + "': '" + value +
                             "' is no output of the training algorithm");
  }
  if (keys.empty())
    return model.error(ErrorKind::Invalid,
                       "training_info without update_binding changes nothing");
  return Error::success();
}

// Runs the initialization graph, which has no inputs, at import.
Error TrainingInfoImporter::initialize(const Graph &graph) {
  if (info.initialization_binding_size() == 0)
    return Error::success();
  if (!info.has_initialization())
    return model.error(ErrorKind::Invalid,
                       "initialization_binding without an initialization "
                       "graph");
  if (info.initialization().input_size() != 0)
    return model.error(ErrorKind::Invalid,
                       "the initialization graph has inputs, expected none");
  Expected<Graph> initial = Graph::check(model, {&info.initialization()});
  if (!initial)
    return initial.takeError();
  ImportOptions none;
  ModuleImporter scratch(none, model.getContext());
  FunctionImporter function(scratch, *initial, "init");
  function.importNodes(initial->getNodes());
  function.finish();
  if (scratch.hasFailed())
    return scratch.finish().takeError();
  for (const auto &binding : info.initialization_binding()) {
    StringRef key = binding.key(), value = binding.value();
    if (!graph.getInitializer(key))
      return model.error(ErrorKind::Invalid,
                         "initialization_binding of '" + key +
                             "': no initializer has that name");
    if (!isOutput(info.initialization(), value))
      return model.error(ErrorKind::Invalid,
                         "initialization_binding of '" + key + "': '" + value +
                             "' is no output of the initialization graph");
    const auto &constant = function.lookup(value).constant;
    if (!constant)
      return model.error(ErrorKind::Unsupported, "the initial value of '" +
                                                     key +
                                                     "' is not a constant");
    // Values given by the user have the last word.
    options.weights.try_emplace(key, *constant);
  }
  return scratch.finish().takeError();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static bool isOptimizer(StringRef op) {
  return op == "Adam" || op == "Adagrad" || op == "Momentum";
}

void TrainingInfoImporter::findTrainingNodes(const Graph &graph) {
  for (const proto::NodeProto *node : graph.getNodes()) {
    if (isOptimizer(node->op_type()) && node->input_size() > 0)
      learningRates.insert(node->input(0));
    if (node->op_type() != "Gradient")
      continue;
    for (const proto::AttributeProto &attribute : node->attribute()) {
      if (attribute.name() == "y" && !llvm::is_contained(losses, attribute.s()))
        losses.push_back(attribute.s());
      if (attribute.name() == "xs")
        differentiated.insert(attribute.strings().begin(),
                              attribute.strings().end());
    }
  }
}

// What is updated is state, whatever its type.
void TrainingInfoImporter::bindStates(FunctionImporter &function) {
  for (const auto &binding : info.update_binding()) {
    if (VariableOp variable = module.findVariable(binding.key())) {
      function.bindState(binding.key(), variable);
      continue;
    }
    ImportedValue &entry = function.lookup(binding.key());
    if (entry.failed)
      continue;
    StringRef role = differentiated.contains(binding.key()) ? "parameter"
                     : entry.constant->isFloat()            ? "optimizer_state"
                                                            : "counter";
    HostTensor init = *entry.constant;
    function.bindState(binding.key(), module.getVariable(binding.key(), role,
                                                         init.type, &init));
  }
}

// Adds the graph inputs that `nodes` read.
Error TrainingInfoImporter::addInputs(
    FunctionImporter &function, ArrayRef<const proto::NodeProto *> nodes) {
  llvm::StringSet<> read;
  for (const proto::NodeProto *node : nodes)
    for (StringRef value : getReadValues(*node))
      read.insert(value);
  ArrayRef<const proto::ValueInfoProto *> inputs =
      function.getGraph().getInputs();
  ShapeBinder shapes(model, options);
  if (Error error = shapes.collect(inputs))
    return error;
  for (const proto::ValueInfoProto *input : inputs) {
    if (!read.contains(input->name()))
      continue;
    Expected<RankedTensorType> type = shapes.getType(*input);
    if (!type) {
      module.report(type.takeError());
      function.lookup(input->name()).failed = true;
    } else if (learningRates.contains(input->name())) {
      // The caller's schedule sets it, by mpc's name.
      function.bind(input->name(),
                    function.addInput("learning_rate", *type, "scalar"));
    } else {
      function.addInput(input->name(), *type, "data");
    }
  }
  return Error::success();
}

// Whether a skipped step leaves `value`, the new value of a counter, out.
static bool isCountedUp(Value value) {
  return isa<BlockArgument>(value) || value.getDefiningOp<IncrementOp>();
}

void TrainingInfoImporter::addUpdates(FunctionImporter &function) {
  for (const auto &binding : info.update_binding()) {
    VariableOp variable = module.findVariable(binding.key());
    Value value = function.materialize(binding.value(), "");
    if (!variable || !value)
      continue;
    if (value.getType() != variable.getType()) {
      std::string found;
      llvm::raw_string_ostream(found)
          << value.getType() << ", expected " << variable.getType();
      module.report(model.error(ErrorKind::Invalid,
                                "update_binding of '" + binding.key() + "': '" +
                                    binding.value() + "' is of type " + found));
      continue;
    }
    if (variable.getRole() == "counter" && !isCountedUp(value)) {
      module.report(model.error(
          ErrorKind::Unsupported,
          "update_binding of '" + binding.key() + "': expected '" +
              binding.value() +
              "' to be that integer plus 1, the only update of integers that "
              "is supported"));
      continue;
    }
    (void)function.addUpdate(variable, value);
  }
}

// Whatever depends on a gradient belongs to the optimizer, and so does what no
// output needs, a learning rate's decay for one: only new state reads it.
static void markOptimizer(FunctionImporter &function,
                          ArrayRef<const proto::NodeProto *> nodes,
                          ArrayRef<const proto::NodeProto *> forOutputs) {
  llvm::DenseSet<const proto::NodeProto *> needed(forOutputs.begin(),
                                                  forOutputs.end());
  llvm::StringSet<> derived;
  for (const proto::NodeProto *node : nodes) {
    bool isGradient = node->op_type() == "Gradient";
    bool isDerived = llvm::any_of(getReadValues(*node), [&](StringRef value) {
      return derived.contains(value);
    });
    if (isDerived || (!isGradient && !needed.contains(node)))
      function.phases[node] = "optimizer";
    if (isDerived || isGradient)
      derived.insert(node->output().begin(), node->output().end());
  }
}

Error TrainingInfoImporter::importStep(const Graph &graph) {
  FunctionImporter function(module, graph, "step");
  llvm::StringSet<> bound;
  std::vector<StringRef> outputs(losses), needed(losses);
  for (const auto &binding : info.update_binding()) {
    bound.insert(binding.value());
    needed.push_back(binding.value());
  }
  for (const proto::ValueInfoProto &output : info.algorithm().output())
    if (!bound.contains(output.name()) &&
        !llvm::is_contained(outputs, output.name())) {
      outputs.push_back(output.name());
      needed.push_back(output.name());
    }
  std::vector<const proto::NodeProto *> nodes = graph.getNodesFor(needed);
  bindStates(function);
  if (Error error = addInputs(function, nodes))
    return error;
  markOptimizer(function, nodes, graph.getNodesFor(outputs));
  function.importNodes(nodes);
  if (module.hasFailed())
    return Error::success();
  addTrainingOutputs(function, outputs);
  addUpdates(function);
  addIncrement(function, "mpc.step");
  addIncrement(function, "mpc.micro_step");
  function.finish();
  return Error::success();
}

Error TrainingInfoImporter::importEval(const Graph &graph) {
  FunctionImporter function(module, graph, "eval");
  std::vector<StringRef> outputs(losses);
  for (const proto::ValueInfoProto &output : model.getProto().graph().output())
    if (!llvm::is_contained(outputs, output.name()))
      outputs.push_back(output.name());
  std::vector<const proto::NodeProto *> nodes = graph.getNodesFor(outputs);
  bindStates(function);
  if (Error error = addInputs(function, nodes))
    return error;
  function.importNodes(nodes);
  if (module.hasFailed())
    return Error::success();
  addTrainingOutputs(function, outputs);
  addEvaluationOutputs(function);
  function.finish();
  return Error::success();
}

Expected<OwningOpRef<ModuleOp>> TrainingInfoImporter::run() {
  if (model.getProto().training_info_size() != 1)
    return model.error(ErrorKind::Unsupported,
                       "expected one training_info, found " +
                           Twine(model.getProto().training_info_size()));
  if (!info.has_algorithm())
    return model.error(ErrorKind::Invalid, "training_info has no algorithm");
  // The inference graph must stand alone; it may not read the algorithm's.
  Expected<Graph> inference = Graph::check(model, {&model.getProto().graph()});
  if (!inference)
    return inference.takeError();
  Expected<Graph> graph =
      Graph::check(model, {&model.getProto().graph(), &info.algorithm()});
  if (!graph)
    return graph.takeError();
  if (Error error = checkBindings(*graph))
    return error;
  if (Error error = initialize(*graph))
    return error;
  findTrainingNodes(*graph);
  if (Error error = importStep(*graph))
    module.report(std::move(error));
  if (!module.hasFailed())
    if (Error error = importEval(*graph))
      module.report(std::move(error));
  return module.finish();
}

Expected<OwningOpRef<ModuleOp>>
mpc::onnx_frontend::importTrainingInfo(const Model &model,
                                       const ImportOptions &options) {
  return TrainingInfoImporter(model, options).run();
}
