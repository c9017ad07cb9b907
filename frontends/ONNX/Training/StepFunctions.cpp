// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/StepFunctions.h"

#include "frontends/ONNX/Importer/Shapes.h"
#include "frontends/ONNX/Model/Weights.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

// Binds the input `name`, whose value the user gives in `--weights`, like an
// initializer.
void StepImporter::bindGiven(FunctionImporter &function, StringRef name,
                             RankedTensorType type) {
  ImportedValue &entry = function.lookup(name);
  Expected<HostTensor> value =
      fitWeight(graph.getModel(), "input", name,
                options.weights.find(name)->second, type);
  if (!value) {
    module.report(value.takeError());
    entry.failed = true;
    return;
  }
  entry.constant = *value;
  if (value->isFloat())
    entry.stateRole = module.getParameterRole(name, type);
}

// Reshapes `value` to `type`, which has the same number of elements.
static Value reshapeTo(FunctionImporter &function, Value value,
                       RankedTensorType type) {
  if (value.getType() == type)
    return value;
  return ReshapeOp::create(function.getBuilder(), value.getLoc(), type, value);
}

void StepImporter::addInput(FunctionImporter &function, StringRef name,
                            RankedTensorType type) {
  // Tools disagree on the rank of a scalar: [] or [1].
  bool isScalar = type.getNumElements() == 1;
  if (step.learningRates.contains(name) && isScalar) {
    // All inputs that are learning rates become one input of mpc's own name.
    // The caller's schedule sets its value.
    if (!learningRate)
      learningRate = function.addInput(kLearningRateInput, type, Role::Scalar);
    function.bind(name, reshapeTo(function, learningRate, type));
    return;
  }
  // mpc scales the loss itself, so the graph's own scale is 1.
  if (step.lossScales.contains(name) && isScalar) {
    Attribute one = FloatAttr::get(type.getElementType(), 1.0);
    auto ones = HostTensor::fromAttribute(DenseElementsAttr::get(type, one));
    return function.bindConstant(name, *ones);
  }
  // mpc's counter replaces an input that counts updates. The optimizer node
  // decides if the first update has the count 0 or 1.
  auto count = step.stepCounts.find(name);
  if (count != step.stepCounts.end() && isScalar &&
      type.getElementType().isInteger(64)) {
    Value value = count->second == 0
                      ? function.getState(module.getCounter(kStepVariable))
                      : addIncrement(function, kStepVariable);
    function.bind(name, reshapeTo(function, value, type));
    return;
  }
  // All other inputs are data that the caller passes.
  function.addInput(name, type, Role::Data);
}

Error StepImporter::addInputs(FunctionImporter &function,
                              ArrayRef<const proto::NodeProto *> nodes) {
  llvm::StringSet<> read;
  for (const proto::NodeProto *node : nodes)
    for (StringRef value : getReadValues(*node))
      read.insert(value);
  // Collect the dimensions of unread inputs too: they may name the batch.
  ArrayRef<const proto::ValueInfoProto *> inputs = graph.getInputs();
  ShapeBinder shapes(graph.getModel(), options);
  if (Error error = shapes.collect(inputs))
    return error;
  for (const proto::ValueInfoProto *input : inputs) {
    if (!read.contains(input->name()))
      continue;
    Expected<RankedTensorType> type = shapes.getType(*input);
    if (!type) {
      module.report(type.takeError());
      function.lookup(input->name()).failed = true;
    } else if (options.weights.contains(input->name())) {
      bindGiven(function, input->name(), *type);
    } else {
      addInput(function, input->name(), *type);
    }
  }
  return Error::success();
}

// Binds `state`, which the step updates, to a variable: a parameter, other
// floats (optimizer state) or integers (a counter).
void StepImporter::bindState(FunctionImporter &function, StringRef state) {
  if (VariableOp variable = module.findVariable(state))
    return function.bindState(state, variable);
  ImportedValue &entry = function.lookup(state);
  // If no node of this function reads the state, nothing has loaded the initial
  // value.
  if (entry.failed || !entry.constant)
    return;
  Role role = step.parameters.contains(state) ? Role::Parameter
              : entry.constant->isFloat()     ? Role::OptimizerState
                                              : Role::Counter;
  HostTensor init = *entry.constant;
  function.bindState(state, module.getVariable(state, role, init.type, &init));
}

bool mpc::onnx_frontend::bindGradientSeed(FunctionImporter &function,
                                          StringRef name) {
  ImportedValue &entry = function.lookup(name);
  if (!entry.constant || !entry.constant->isFloat())
    return false;
  for (int64_t i = 0; i < entry.constant->getNumElements(); ++i)
    if (entry.constant->getDouble(i) != 1.0)
      return false;
  OpBuilder &builder = function.getBuilder();
  auto op = GradientSeedOp::create(
      builder, NameLoc::get(builder.getStringAttr(name)), entry.constant->type);
  setPhase(op, Phase::Backward);
  function.bind(name, op.getOutput());
  // Without this reset, values computed from the seed would be folded to
  // constants.
  function.lookup(name).constant.reset();
  return true;
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

// Sets the phase of every node. The update has the nodes of the optimizer, all
// nodes that depend on results of an optimizer or of Gradient, and nodes that
// depend on no data, such as the decay of a learning rate. Nodes that outputs
// need are forward. All other nodes are backward if the graph has backward
// nodes.
void StepImporter::markPhases(FunctionImporter &function,
                              ArrayRef<const proto::NodeProto *> nodes) {
  // Nodes that outputs need are forward, even if state needs them.
  std::vector<const proto::NodeProto *> forward = graph.getNodesFor(
      step.hasBackwardNodes ? step.evalOutputs : step.outputs);
  llvm::DenseSet<const proto::NodeProto *> needed(forward.begin(),
                                                  forward.end());
  // The decay of a learning rate depends on no data, so it belongs to the
  // update.
  llvm::StringSet<> updated, data;
  for (const proto::ValueInfoProto *input : graph.getInputs())
    if (!options.weights.contains(input->name()) &&
        !step.learningRates.contains(input->name()) &&
        !step.lossScales.contains(input->name()) &&
        !step.stepCounts.contains(input->name()))
      data.insert(input->name());
  auto readsAny = [](const proto::NodeProto &node,
                     const llvm::StringSet<> &names) {
    return llvm::any_of(getReadValues(node),
                        [&](StringRef value) { return names.contains(value); });
  };
  // Go in the order of execution, so that `updated` is complete for each node.
  for (const proto::NodeProto *node : nodes) {
    bool isGradient = node->op_type() == "Gradient";
    bool dependsOnData = readsAny(*node, data);
    if (dependsOnData)
      data.insert(node->output().begin(), node->output().end());
    // All nodes that depend on an optimizer node belong to the update.
    bool isUpdate =
        readsAny(*node, updated) || step.optimizerNodes.contains(node);
    if (isUpdate || isGradient)
      updated.insert(node->output().begin(), node->output().end());
    if (isUpdate)
      function.phases[node] = Phase::Optimizer;
    else if (isGradient || needed.contains(node))
      continue;
    else if (step.hasBackwardNodes && (dependsOnData || step.updates.empty()))
      function.phases[node] = Phase::Backward;
    else
      function.phases[node] = Phase::Optimizer;
  }
}

//===----------------------------------------------------------------------===//
// The functions
//===----------------------------------------------------------------------===//

// True if `value`, the new value of a counter, is the old value or the old
// value plus 1. mpc can skip a step only by leaving out such increments.
static bool isCountedUp(Value value) {
  return isa<BlockArgument>(value) || value.getDefiningOp<IncrementOp>();
}

void StepImporter::addUpdates(FunctionImporter &function) {
  const Model &model = graph.getModel();
  // The updates come last, because all nodes read the old state.
  for (const auto &[state, name] : step.updates) {
    VariableOp variable = module.findVariable(state);
    Value value = function.materialize(name, "");
    // The normalization node has already updated its running statistics.
    if (!variable || !value || variable.getRole() == Role::Statistic)
      continue;
    // A state keeps its type from step to step.
    std::string what = "update of '" + state + "'";
    if (value.getType() != variable.getType()) {
      std::string found;
      llvm::raw_string_ostream(found)
          << value.getType() << ", expected " << variable.getType();
      module.report(model.error(ErrorKind::InvalidInput,
                                what + ": '" + name + "' is of type " + found));
      continue;
    }
    // Kernels compute only new floats. An integer state can only be
    // incremented.
    if (variable.getRole() == Role::Counter && !isCountedUp(value)) {
      module.report(model.error(
          ErrorKind::Unsupported,
          what + ": expected '" + name + "' to be '" + state +
              "' plus 1, the only update of integers that is supported"));
      continue;
    }
    (void)function.addUpdate(variable, value);
  }
}

// Adds each gradient as an output with the name of the parameter, by which
// mpc-add-optimizer finds the gradient.
void StepImporter::addGradients(FunctionImporter &function) {
  for (const auto &[state, name] : step.gradients) {
    VariableOp variable = module.findVariable(state);
    Value value = function.materialize(name, "");
    if (!variable || !value)
      continue;
    if (value.getType() == variable.getType()) {
      function.addOutput(variable.getSymName(), value, Role::Gradient);
      continue;
    }
    std::string found;
    llvm::raw_string_ostream(found)
        << value.getType() << ", expected " << variable.getType();
    module.report(graph.getModel().error(ErrorKind::InvalidInput,
                                         "gradient '" + name + "' of '" +
                                             state + "' is of type " + found));
  }
}

// Imports the nodes of forward pass, backward pass and update, and then the
// outputs.
Error StepImporter::importBody(FunctionImporter &function) {
  learningRate = {};
  options.mode = ImportMode::AsExported;
  std::vector<StringRef> needed(step.outputs);
  for (const auto *list : {&step.updates, &step.gradients})
    for (const StateUpdate &update : *list)
      needed.push_back(update.value);
  std::vector<const proto::NodeProto *> nodes = graph.getNodesFor(needed);
  if (Error error = addInputs(function, nodes))
    return error;
  // Bind state before importing nodes, which read the state.
  for (const auto *list : {&step.updates, &step.gradients})
    for (const StateUpdate &update : *list)
      bindState(function, update.state);
  for (const auto &seed : step.seeds)
    (void)bindGradientSeed(function, seed.getKey());
  markPhases(function, nodes);
  function.importNodes(nodes);
  if (!module.hasFailed())
    addTrainingOutputs(function, step.outputs);
  return Error::success();
}

Error StepImporter::importAccumulate(std::vector<Accumulation> &accumulations) {
  assert(step.updates.empty() && "an optimizer graph updates the state");
  FunctionImporter function(module, graph, kAccumulateFunction);
  if (Error error = importBody(function))
    return error;
  if (module.hasFailed())
    return Error::success();
  for (const auto &[state, name] : step.gradients) {
    accumulations.push_back(
        {state, name, name + "#sum", VariableOp(), VariableOp()});
    addAccumulation(function, accumulations.back());
  }
  addIncrement(function, kMicroStepVariable);
  function.finish();
  return Error::success();
}

Error StepImporter::importStep() {
  assert((step.updates.empty() || step.gradients.empty()) &&
         "only a graph without an update lists gradients");
  FunctionImporter function(module, graph, kStepFunction);
  if (Error error = importBody(function))
    return error;
  if (module.hasFailed())
    return Error::success();
  addUpdates(function);
  addGradients(function);
  // A graph without updates gets an optimizer from mpc-add-optimizer, which
  // also adds the counters.
  if (step.updates.empty()) {
    function.finish();
    return Error::success();
  }
  // If an input of the graph counts updates from 1, addInput() has already
  // incremented the counter.
  if (!function.getUpdate(module.getCounter(kStepVariable)))
    addIncrement(function, kStepVariable);
  addIncrement(function, kMicroStepVariable);
  function.finish();
  return Error::success();
}

Error StepImporter::importEval(ImportMode mode) {
  learningRate = {};
  options.mode = mode;
  FunctionImporter function(module, graph, kEvalFunction);
  std::vector<const proto::NodeProto *> nodes =
      graph.getNodesFor(step.evalOutputs);
  if (Error error = addInputs(function, nodes))
    return error;
  for (const auto *list : {&step.updates, &step.gradients})
    for (const StateUpdate &update : *list)
      bindState(function, update.state);
  function.importNodes(nodes);
  if (module.hasFailed())
    return Error::success();
  addTrainingOutputs(function, step.evalOutputs);
  addEvaluationOutputs(function);
  function.finish();
  return Error::success();
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

Expected<OwningOpRef<ModuleOp>> mpc::onnx_frontend::importTrainingStep(
    const Graph &graph, const TrainingStep &step, const ImportOptions &asked) {
  ImportOptions options = asked;
  ModuleImporter module(options, graph.getModel().getContext());
  StepImporter importer(module, options, graph, step);
  auto report = [&](Error error) {
    if (error)
      module.report(std::move(error));
    return !module.hasFailed();
  };
  bool imported;
  if (options.optimizerModel.empty()) {
    imported = report(importer.importStep());
  } else {
    std::vector<Accumulation> accumulations;
    imported =
        report(importer.importAccumulate(accumulations)) &&
        report(importOptimizerFile(module, graph.getModel(),
                                   options.optimizerModel, accumulations));
  }
  // The graph was exported in training mode; @eval uses evaluation mode.
  if (imported)
    (void)report(importer.importEval(ImportMode::Evaluation));
  return module.finish();
}
