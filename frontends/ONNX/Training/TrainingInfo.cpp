// Imports models that carry their own training step (ModelProto.training_info).
//
// The specification concatenates a second graph, the step, with the inference
// graph. Bindings name the outputs that become next values of initializers. No
// tool has checked such a file before, so all bindings are checked here.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/TrainingInfo.h"

#include "frontends/ONNX/Training/StepFunctions.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

namespace {
/// Checks the bindings and describes the step.
class TrainingInfoImporter {
public:
  TrainingInfoImporter(const Model &model, const ImportOptions &asked)
      : model(model), info(model.getProto().training_info(0)), options(asked),
        module(options, model.getContext()) {}

  Expected<OwningOpRef<ModuleOp>> run();

private:
  Error checkBindings(const Graph &graph);
  Error initialize(const Graph &graph);
  void describeStep(const Graph &graph);

  const Model &model;
  const proto::TrainingInfoProto &info;
  ImportOptions options;
  ModuleImporter module;
  TrainingStep step;
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
  // Each key of an update_binding must be an initializer and occur once.
  llvm::StringSet<> keys;
  for (const auto &binding : info.update_binding()) {
    StringRef key = binding.key(), value = binding.value();
    if (!graph.getInitializer(key))
      return model.error(ErrorKind::InvalidInput,
                         "update_binding of '" + key +
                             "': no initializer has that name");
    if (!keys.insert(key).second)
      return model.error(ErrorKind::InvalidInput,
                         "update_binding of '" + key + "' is given twice");
    // The new value may be an output of the algorithm or of the inference
    // graph.
    if (!isOutput(info.algorithm(), value) &&
        !isOutput(model.getProto().graph(), value))
      return model.error(ErrorKind::InvalidInput,
                         "update_binding of '" + key + "': '" + value +
                             "' is no output of the training algorithm");
  }
  // A step that updates nothing is a mistake in the file.
  if (keys.empty())
    return model.error(
        ErrorKind::InvalidInput,
        "training_info has no update_binding, and so would train nothing");
  return Error::success();
}

// Runs the initialization graph, which has no inputs, during the import.
Error TrainingInfoImporter::initialize(const Graph &graph) {
  // Without an initialization_binding, training starts from the values in the
  // file.
  if (info.initialization_binding_size() == 0)
    return Error::success();
  if (!info.has_initialization())
    return model.error(ErrorKind::InvalidInput,
                       "training_info has an initialization_binding, but no "
                       "initialization graph");
  if (info.initialization().input_size() != 0)
    return model.error(
        ErrorKind::InvalidInput,
        "expected an initialization graph without inputs, found " +
            Twine(info.initialization().input_size()));
  Expected<Graph> initial = Graph::check(model, {&info.initialization()});
  if (!initial)
    return initial.takeError();
  // Import into a scratch module, without options of the user: all results must
  // fold to constants.
  ImportOptions none;
  ModuleImporter scratch(none, model.getContext());
  FunctionImporter function(scratch, *initial, kInitFunction);
  function.importNodes(initial->getNodes());
  function.finish();
  if (scratch.hasFailed())
    return scratch.finish().takeError();
  for (const auto &binding : info.initialization_binding()) {
    StringRef key = binding.key(), value = binding.value();
    if (!graph.getInitializer(key))
      return model.error(ErrorKind::InvalidInput,
                         "initialization_binding of '" + key +
                             "': no initializer has that name");
    if (!isOutput(info.initialization(), value))
      return model.error(ErrorKind::InvalidInput,
                         "initialization_binding of '" + key + "': '" + value +
                             "' is no output of the initialization graph");
    const auto &constant = function.lookup(value).constant;
    if (!constant)
      return model.error(
          ErrorKind::Unsupported,
          "the initial value of '" + key + "', output '" + value +
              "' of the initialization graph, is not a constant");
    // Keep a value that the user has given with --weights.
    options.weights.try_emplace(key, *constant);
  }
  return scratch.finish().takeError();
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

static bool isOptimizer(StringRef op) {
  return op == "Adam" || op == "Adagrad" || op == "Momentum";
}

void TrainingInfoImporter::describeStep(const Graph &graph) {
  for (const proto::NodeProto *node : graph.getNodes()) {
    if (isOptimizer(node->op_type()) && node->input_size() > 0)
      step.learningRates.insert(node->input(0));
    if (node->op_type() != "Gradient")
      continue;
    for (const proto::AttributeProto &attribute : node->attribute()) {
      if (attribute.name() == "y" &&
          !llvm::is_contained(step.outputs, attribute.s()))
        step.outputs.push_back(attribute.s());
      if (attribute.name() == "xs")
        step.parameters.insert(attribute.strings().begin(),
                               attribute.strings().end());
    }
  }
  // Put the loss that Gradient differentiates first in the outputs of @step and
  // @eval.
  step.evalOutputs = step.outputs;
  llvm::StringSet<> bound;
  for (const auto &binding : info.update_binding()) {
    step.updates.push_back({binding.key(), binding.value()});
    bound.insert(binding.value());
  }
  for (const proto::ValueInfoProto &output : info.algorithm().output())
    if (!bound.contains(output.name()) &&
        !llvm::is_contained(step.outputs, output.name()))
      step.outputs.push_back(output.name());
  for (const proto::ValueInfoProto &output : model.getProto().graph().output())
    if (!llvm::is_contained(step.evalOutputs, output.name()))
      step.evalOutputs.push_back(output.name());
}

Expected<OwningOpRef<ModuleOp>> TrainingInfoImporter::run() {
  if (model.getProto().training_info_size() != 1)
    return model.error(ErrorKind::Unsupported,
                       "expected one training_info, found " +
                           Twine(model.getProto().training_info_size()));
  if (!info.has_algorithm())
    return model.error(ErrorKind::InvalidInput,
                       "training_info has no algorithm");
  // The inference graph must not read values of the algorithm.
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
  describeStep(*graph);
  StepImporter importer(module, options, *graph, step);
  if (Error error = importer.importStep())
    module.report(std::move(error));
  // The nodes of the algorithm state if they are in training mode, so @eval
  // keeps the exported mode.
  if (!module.hasFailed())
    if (Error error = importer.importEval(ImportMode::AsExported))
      module.report(std::move(error));
  return module.finish();
}

Expected<OwningOpRef<ModuleOp>>
mpc::onnx_frontend::importTrainingInfo(const Model &model,
                                       const ImportOptions &options) {
  return TrainingInfoImporter(model, options).run();
}
