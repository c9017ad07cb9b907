// Imports ONNX Runtime's training artifacts: three graphs with a shared state.
//
// In the training graph every parameter is an input, and so is the buffer of
// its gradient. InPlaceAccumulatorV2 adds to the buffer (a sum over any number
// of micro-batches), or overwrites the buffer if lazy_reset_grad marks the
// first micro-batch. Here the buffers are variables: @accumulate always adds;
// @update consumes the sums and resets them to zero.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/Artifacts.h"

#include "compiler/Support/NearestNames.h"
#include "frontends/ONNX/Importer/Shapes.h"
#include "frontends/ONNX/Model/Weights.h"
#include "frontends/ONNX/Repair/Repair.h"
#include "frontends/ONNX/Training/OptimizerGraph.h"
#include "frontends/ONNX/Training/StepFunctions.h"
#include "frontends/ONNX/Training/StepValues.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

bool mpc::onnx_frontend::isAccumulator(const proto::NodeProto &node) {
  return node.op_type() == "InPlaceAccumulatorV2" ||
         node.op_type() == "InPlaceAccumulator";
}

bool mpc::onnx_frontend::isTrainingArtifact(const Model &model) {
  return llvm::any_of(model.getProto().graph().node(), isAccumulator);
}

namespace {
/// The roles of the training graph's inputs.
struct TrainingInputs {
  /// The parameter and gradient of each accumulator node, in the order of the
  /// nodes.
  std::vector<Accumulation> accumulations;
  llvm::StringSet<> parameters, statistics, buffers, resetFlags;
};

/// Builds @accumulate, @eval and @update over one set of variables.
class ArtifactImporter {
public:
  ArtifactImporter(const Model &training, const ImportOptions &options)
      : training(training), options(options),
        module(options, training.getContext()) {}

  Expected<OwningOpRef<ModuleOp>> run();

private:
  Error findInputs(const Graph &graph);
  Error readResetFlag(const Graph &graph, const proto::NodeProto &accumulator);
  void bindInitializers(FunctionImporter &function, const Graph &graph);
  Error addInputs(FunctionImporter &function, const Graph &graph);
  void reportMissing(const Model &model);
  VariableOp addParameter(const Model &model, StringRef name,
                          RankedTensorType type);
  Error importAccumulate();
  void bindGradientSeeds(FunctionImporter &function, const Graph &graph);
  void addAccumulators(FunctionImporter &function);
  Error importEval(StringRef path);
  Error importUpdate(StringRef path);

  const Model &training;
  const ImportOptions &options;
  ModuleImporter module;
  TrainingInputs inputs;
  /// Parameters without a value in the graph being imported.
  std::vector<std::string> missing;
};
} // namespace

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

// Returns the parameter whose gradient `node` accumulates; nullopt if unknown.
static std::optional<StringRef> getParameterName(const proto::NodeProto &node) {
  StringRef buffer = node.input(0), gradient = node.input(1);
  if (buffer.consume_back("_grad.accumulation.buffer"))
    return buffer;
  if (gradient.consume_back("_grad"))
    return gradient;
  return std::nullopt;
}

// Finds the accumulators, and from them the role of each input of the graph.
Error ArtifactImporter::findInputs(const Graph &graph) {
  for (const proto::NodeProto *node : graph.getNodes()) {
    StringRef op = node->op_type();
    // Find running statistics by the op: no accumulator names statistics, which
    // have no gradient.
    bool hasStatistics =
        (op == "BatchNormInternal" || op == "BatchNormalization") &&
        node->input_size() == 5;
    for (int index = 3; hasStatistics && index < 5; ++index)
      inputs.statistics.insert(node->input(index));
    // The inputs of an accumulator are (buffer, gradient, reset flag).
    if (!isAccumulator(*node))
      continue;
    if (node->input_size() < 2)
      return training.error(
          ErrorKind::InvalidInput,
          "node '" + getNodeName(*node) +
              "': expected a buffer and a gradient as inputs, found " +
              Twine(node->input_size()) + " inputs");
    // The name of the buffer, or of the gradient, contains the parameter's
    // name.
    auto parameter = getParameterName(*node);
    if (!parameter)
      return training.error(
          ErrorKind::Unsupported,
          "node '" + getNodeName(*node) +
              "': cannot tell the parameter of gradient '" + node->input(1) +
              "': expected the parameter's name followed by '_grad'");
    inputs.accumulations.push_back({parameter->str(), node->input(1),
                                    getNodeName(*node), VariableOp(),
                                    VariableOp()});
    inputs.parameters.insert(*parameter);
    inputs.buffers.insert(node->input(0));
    if (Error error = readResetFlag(graph, *node))
      return error;
  }
  return Error::success();
}

// Reads the reset flag of an accumulator. The caller of the graph sets the flag
// for the first batch of a step; mpc resets the sums in @update instead. Fails
// if the graph computes the flag, because the graph then follows another rule.
Error ArtifactImporter::readResetFlag(const Graph &graph,
                                      const proto::NodeProto &accumulator) {
  if (accumulator.input_size() < 3 || accumulator.input(2).empty())
    return Error::success();
  StringRef flag = accumulator.input(2);
  std::string where = "node '" + getNodeName(accumulator) + "' (" +
                      getOpName(accumulator) + "): ";
  if (const proto::NodeProto *producer = graph.getProducer(flag))
    return training.error(
        ErrorKind::Unsupported,
        where +
            "expected input 2, the flag that updates or resets the sum, to be "
            "an input of the graph, found '" +
            flag + "', which node '" + getNodeName(*producer) + "' makes");
  const proto::TensorProto *constant = graph.getInitializer(flag);
  if (!constant) {
    inputs.resetFlags.insert(flag);
    return Error::success();
  }
  Expected<HostTensor> value =
      training.decode(*constant, "initializer '" + flag + "'");
  if (!value)
    return value.takeError();
  bool isSet = value->getNumElements() == 1 && value->getDouble(0) != 0.0;
  // The flag of the older InPlaceAccumulator means "update the sum" and must be
  // true. The flag of InPlaceAccumulatorV2 means "reset the sum".
  if (accumulator.op_type() == "InPlaceAccumulator")
    return isSet ? Error::success()
                 : training.error(ErrorKind::Unsupported,
                                  where + "'" + flag +
                                      "' is false, so the sum is never "
                                      "updated; expected true");
  if (isSet && module.isFirst("a flag that always resets"))
    training.warn(where + "'" + flag +
                  "' resets the sum in every batch; mpc resets it once per "
                  "step, after the --accumulate-grad-batches batches");
  return Error::success();
}

// Creates the variable of a parameter that is a graph input, with the user's
// value. Null without a usable value: then `missing` has the name, or an error
// is reported.
VariableOp ArtifactImporter::addParameter(const Model &model, StringRef name,
                                          RankedTensorType type) {
  Role role = inputs.statistics.contains(name)   ? Role::Statistic
              : inputs.parameters.contains(name) ? Role::Parameter
                                                 : Role::Frozen;
  auto weight = options.weights.find(name);
  if (weight == options.weights.end()) {
    missing.push_back(name.str());
    return {};
  }
  Expected<HostTensor> value =
      fitWeight(model, "parameter", name, weight->second, type);
  if (!value) {
    module.report(value.takeError());
    return {};
  }
  return module.getVariable(name, role, type, &*value);
}

// Reports all parameters without a value, listed in `missing`, as one finding.
void ArtifactImporter::reportMissing(const Model &model) {
  if (missing.empty())
    return;
  const std::string count = std::to_string(missing.size());
  module.report(model.error(
      ErrorKind::InvalidInput,
      (missing.size() == 1
           ? "1 parameter is a graph input without a value: "
           : count + " parameters are graph inputs without values: ") +
          listNearestNames("", missing) +
          "; give values with --weights FILE, such as the model that the "
          "artifacts were made from"));
  missing.clear();
}

// Binds parameters that are initializers of the training graph. ONNX Runtime
// writes graph inputs, but an editor of graphs may have given them values.
void ArtifactImporter::bindInitializers(FunctionImporter &function,
                                        const Graph &graph) {
  for (const auto *names : {&inputs.parameters, &inputs.statistics})
    for (const auto &name : *names) {
      if (!graph.getInitializer(name.getKey()))
        continue;
      ImportedValue &entry = function.lookup(name.getKey());
      if (entry.failed || !entry.constant)
        continue;
      HostTensor init = *entry.constant;
      Role role =
          names == &inputs.parameters ? Role::Parameter : Role::Statistic;
      function.bindState(name.getKey(), module.getVariable(name.getKey(), role,
                                                           init.type, &init));
    }
}

Error ArtifactImporter::addInputs(FunctionImporter &function,
                                  const Graph &graph) {
  const Model &model = graph.getModel();
  // mpc replaces gradient buffers and reset flags by its own variables.
  std::vector<const proto::ValueInfoProto *> data;
  for (const proto::ValueInfoProto *input : graph.getInputs())
    if (!inputs.buffers.contains(input->name()) &&
        !inputs.resetFlags.contains(input->name()))
      data.push_back(input);
  ShapeBinder shapes(model, options);
  if (Error error = shapes.collect(data))
    return error;
  // A parameter is a graph input; the user's value makes it state.
  for (const proto::ValueInfoProto *input : data) {
    Expected<RankedTensorType> type = shapes.getType(*input);
    StringRef name = input->name();
    if (!type) {
      module.report(type.takeError());
      function.lookup(name).failed = true;
      continue;
    }
    bool isState = inputs.parameters.contains(name) ||
                   inputs.statistics.contains(name) ||
                   options.weights.contains(name);
    if (!isState)
      function.addInput(name, *type, Role::Data);
    else if (VariableOp variable = addParameter(model, name, *type))
      function.bindState(name, variable);
    else
      function.lookup(name).failed = true;
  }
  reportMissing(model);
  bindInitializers(function, graph);
  return Error::success();
}

//===----------------------------------------------------------------------===//
// @accumulate
//===----------------------------------------------------------------------===//

// Finds the seeds, constants of ones at which the backward pass starts: an
// initializer `Y_grad` for an output Y, or the gradient of the loss. Marks
// every node that depends on a seed as backward.
void ArtifactImporter::bindGradientSeeds(FunctionImporter &function,
                                         const Graph &graph) {
  llvm::StringSet<> backward;
  for (const proto::ValueInfoProto *output : graph.getOutputs()) {
    std::string seed = output->name() + "_grad";
    if (!graph.getInitializer(seed))
      continue;
    if (!bindGradientSeed(function, seed))
      return module.report(training.error(
          ErrorKind::Unsupported, "the gradient of output '" + output->name() +
                                      "' does not start at 1: expected '" +
                                      seed + "' to be an initializer of 1"));
    backward.insert(seed);
  }
  // A loss that is no output of the graph has a seed, too.
  for (const auto &seed : findGradientSeeds(graph))
    if (!backward.contains(seed.getKey()) &&
        bindGradientSeed(function, seed.getKey()))
      backward.insert(seed.getKey());
  // Every node that depends on a seed belongs to the backward pass.
  for (const proto::NodeProto *node : graph.getNodes()) {
    bool reads = llvm::any_of(node->input(), [&](const std::string &input) {
      return backward.contains(input);
    });
    if (!reads && !isGradientNode(*node))
      continue;
    function.phases[node] = Phase::Backward;
    for (const std::string &output : node->output())
      backward.insert(output);
  }
}

// Adds the result of a loss node to `outputs` unless an output may be the loss.
static void addLoss(const Graph &graph, std::vector<StringRef> &outputs) {
  auto isFloat = [](int32_t type) {
    return type == proto::TensorProto::FLOAT ||
           type == proto::TensorProto::DOUBLE ||
           type == proto::TensorProto::FLOAT16 ||
           type == proto::TensorProto::BFLOAT16;
  };
  for (const proto::ValueInfoProto *output : graph.getOutputs()) {
    const auto &type = output->type().tensor_type();
    if (llvm::is_contained(outputs, output->name()) &&
        isFloat(type.elem_type()) &&
        (!type.has_shape() || isDeclaredScalar(output)))
      return;
  }
  for (const proto::NodeProto *node : graph.getNodes())
    if (isLossNode(*node))
      return (void)outputs.insert(outputs.begin(), node->output(0));
}

void ArtifactImporter::addAccumulators(FunctionImporter &function) {
  for (Accumulation &accumulation : inputs.accumulations)
    addAccumulation(function, accumulation);
}

Error ArtifactImporter::importAccumulate() {
  // The training graph has a forward pass, a backward pass and one accumulator
  // node per parameter.
  Expected<Graph> graph =
      Graph::check(training, {&training.getProto().graph()});
  if (!graph)
    return graph.takeError();
  if (Error error = findInputs(*graph))
    return error;
  FunctionImporter function(module, *graph, kAccumulateFunction);
  Error inputErrors = addInputs(function, *graph);
  bindGradientSeeds(function, *graph);
  // Return all outputs except the results of accumulators.
  std::vector<StringRef> outputs, needed;
  for (const proto::ValueInfoProto *output : graph->getOutputs()) {
    const proto::NodeProto *producer = graph->getProducer(output->name());
    if (!producer || !isAccumulator(*producer))
      outputs.push_back(output->name());
  }
  addLoss(*graph, outputs);
  needed = outputs;
  for (const Accumulation &accumulation : inputs.accumulations)
    needed.push_back(accumulation.gradient);
  auto nodes = graph->getNodesFor(needed);
  // Report unsupported ops together with wrong shapes: the user would otherwise
  // learn of the ops only after fixing the shapes.
  if (inputErrors)
    return llvm::joinErrors(std::move(inputErrors),
                            function.reportUnsupported(nodes));
  // One call adds one micro-batch; the counter holds the number of calls.
  function.importNodes(nodes);
  if (!module.hasFailed()) {
    addTrainingOutputs(function, outputs);
    addAccumulators(function);
    addIncrement(function, kMicroStepVariable);
  }
  function.finish();
  return Error::success();
}

//===----------------------------------------------------------------------===//
// @eval and @update
//===----------------------------------------------------------------------===//

Error ArtifactImporter::importEval(StringRef path) {
  // The evaluation graph is a separate file with the same parameters.
  auto model =
      readRepaired(path, training.getContext(), training.getSkippedRepairs());
  if (!model)
    return model.takeError();
  Expected<Graph> graph =
      Graph::check(**model, {&(*model)->getProto().graph()});
  if (!graph)
    return graph.takeError();
  // The variables already exist: the training graph has created them.
  FunctionImporter function(module, *graph, kEvalFunction);
  if (Error error = addInputs(function, *graph))
    return error;
  std::vector<StringRef> outputs;
  for (const proto::ValueInfoProto *output : graph->getOutputs())
    outputs.push_back(output->name());
  function.importNodes(graph->getNodesFor(outputs));
  if (!module.hasFailed()) {
    addTrainingOutputs(function, outputs);
    addEvaluationOutputs(function);
  }
  function.finish();
  return Error::success();
}

Error ArtifactImporter::importUpdate(StringRef path) {
  return importOptimizerFile(module, training, path, inputs.accumulations);
}

// Returns the path of a file beside `training` with `name` in place of
// "training_model.onnx"; empty if there is no such file. Fails if the file
// system does not tell: without its optimizer graph, the training would
// silently be another one.
static Expected<std::string> findSibling(StringRef training, StringRef name) {
  StringRef file = llvm::sys::path::filename(training);
  if (!file.consume_back("training_model.onnx"))
    return std::string();
  llvm::SmallString<128> path = llvm::sys::path::parent_path(training);
  llvm::sys::path::append(path, file + name);
  llvm::sys::fs::file_status status;
  std::error_code code = llvm::sys::fs::status(path, status);
  if (!code)
    return path.str().str();
  if (code == std::errc::no_such_file_or_directory)
    return std::string();
  return makeError(ErrorKind::IO,
                   path + ": cannot tell if it is there: " + code.message());
}

Expected<OwningOpRef<ModuleOp>> ArtifactImporter::run() {
  std::string optimizer = options.optimizerModel, eval = options.evalModel;
  for (auto [file, name] : {std::pair(&optimizer, "optimizer_model.onnx"),
                            std::pair(&eval, "eval_model.onnx")}) {
    if (!file->empty())
      continue;
    Expected<std::string> sibling = findSibling(training.getPath(), name);
    if (!sibling)
      return sibling.takeError();
    *file = std::move(*sibling);
  }
  if (Error error = importAccumulate())
    module.report(std::move(error));
  // The optimizer and evaluation graphs use the variables that the training
  // graph has created.
  if (!module.hasFailed() && !optimizer.empty())
    if (Error error = importUpdate(optimizer))
      module.report(std::move(error));
  if (!module.hasFailed() && !eval.empty())
    if (Error error = importEval(eval))
      module.report(std::move(error));
  return module.finish();
}

Expected<OwningOpRef<ModuleOp>>
mpc::onnx_frontend::importArtifacts(const Model &training,
                                    const ImportOptions &options) {
  // Each graph's nodes state if they are in training mode: training and
  // evaluation are separate files.
  ImportOptions asExported = options;
  asExported.mode = ImportMode::AsExported;
  return ArtifactImporter(training, asExported).run();
}
