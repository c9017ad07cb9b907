// Implements Import.h. Imports forward models here; passes training graphs and
// training artifacts to the importers in Training.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Import.h"

#include "compiler/Dialect/MPC/FileNames.h"
#include "frontends/ONNX/Importer/Importer.h"
#include "frontends/ONNX/Importer/Shapes.h"
#include "frontends/ONNX/Importer/UnneededOutputs.h"
#include "frontends/ONNX/Model/Functions.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Model/Names.h"
#include "frontends/ONNX/Model/Weights.h"
#include "frontends/ONNX/Repair/Origins.h"
#include "frontends/ONNX/Repair/Repair.h"
#include "frontends/ONNX/Summary.h"
#include "frontends/ONNX/Training/Artifacts.h"
#include "frontends/ONNX/Training/OptimizerNodes.h"
#include "frontends/ONNX/Training/StepGraph.h"
#include "frontends/ONNX/Training/StepValues.h"
#include "frontends/ONNX/Training/Trainable.h"
#include "frontends/ONNX/Training/TrainingInfo.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Forward models
//===----------------------------------------------------------------------===//

// Binds the graph input `name` to `value`, which the user gave
// (ImportOptions::weights). A float tensor becomes state, like a parameter
// (getParameterRole). A scalar, an integer tensor, or a value from
// ImportOptions::offered becomes a constant, which may determine shapes.
static void bindGivenInput(FunctionImporter &function, StringRef name,
                           const HostTensor &value) {
  ImportedValue &entry = function.lookup(name);
  entry.constant = value;
  ModuleImporter &module = function.getModule();
  if (value.isFloat() && !module.getOptions().bound.contains(name))
    entry.stateRole = module.getParameterRole(name, value.type);
}

static Error addInputs(FunctionImporter &function, ShapeBinder &shapes) {
  const Graph &graph = function.getGraph();
  const TensorMap &weights = function.getModule().getOptions().weights;
  Error errors = Error::success();
  for (const proto::ValueInfoProto *input : graph.getInputs()) {
    Expected<RankedTensorType> type = shapes.getType(*input);
    if (!type) {
      errors = llvm::joinErrors(std::move(errors), type.takeError());
      continue;
    }
    auto weight = weights.find(input->name());
    if (weight == weights.end()) {
      function.addInput(input->name(), *type, Role::Data);
      if (shapes.isRebatched(*input))
        function.getModule().getRebatch()->addInput(input->name());
      continue;
    }
    // The user's value must fit the declared type.
    Expected<HostTensor> value = fitWeight(
        graph.getModel(), "input", input->name(), weight->second, *type);
    if (!value) {
      errors = llvm::joinErrors(std::move(errors), value.takeError());
      continue;
    }
    bindGivenInput(function, input->name(), *value);
  }
  return errors;
}

// Compares the type of `value` with the type declared for the output. Another
// element type is an error. Another rank only causes a warning, and the module
// keeps the computed shape.
static Error checkOutput(const Model &model,
                         const proto::ValueInfoProto &output, Value value) {
  if (!output.type().has_tensor_type())
    return Error::success();
  const auto &declared = output.type().tensor_type();
  auto type = cast<RankedTensorType>(value.getType());
  Expected<Type> element = model.getElementType(
      declared.elem_type(), "graph output '" + output.name() + "'");
  if (!element)
    return element.takeError();
  std::string found;
  llvm::raw_string_ostream(found) << Type(type);
  std::string message = "graph output '" + output.name() + "' is declared as " +
                        printType(model, output.type()) + ", but is " + found;
  if (*element != type.getElementType())
    return model.error(ErrorKind::InvalidInput, message);
  // Only warn: graph editors often leave an outdated shape in the file, and
  // other runtimes ignore the shapes of outputs.
  if (declared.has_shape() && declared.shape().dim_size() != type.getRank())
    model.warn(message);
  return Error::success();
}

// Tells the user which float tensors are not trained because of an unclear
// role, and how to train a tensor (--train).
static void listUntrained(const Model &model, const ImportOptions &options,
                          const Trainables &found) {
  if (options.mode != ImportMode::Training || !options.trainableScalars.empty())
    return;
  constexpr size_t shown = 3;
  auto list = [](ArrayRef<std::string> names) {
    std::vector<std::string> quoted;
    for (StringRef name : names)
      quoted.push_back("'" + name.str() + "'");
    return listFirst(quoted, shown) + (names.size() == 1 ? " is" : " are");
  };
  if (!found.named.empty())
    model.warn(
        list(found.named) +
        " not trained: the name looks like a module's parameter, but the file "
        "does not mark it as one, and no layer reads it; --train REGEX "
        "chooses the trained parameters");
  // Evidence may mislead, so it has notes of its own.
  llvm::MapVector<StringRef, std::vector<std::string>> constants;
  for (const std::string &name : found.constants)
    constants[found.evidence.lookup(name)].push_back(name);
  for (const auto &[evidence, names] : constants)
    model.note(list(names) +
               (evidence.empty()
                    ? std::string(" taken as constant, not trained: no layer "
                                  "reads it as a weight, and its name is no "
                                  "module's")
                    : " not trained: " + evidence.str()) +
               "; --train REGEX trains it, mpc inspect --parameters lists all");
}

// Emits a note that lists inputs without readers. An exporter that gets one
// tensor for several inputs writes a model that reads only one of the inputs.
// Training would ignore the data of the others.
static void noteUnread(const Graph &graph, const ImportOptions &options,
                       ArrayRef<const proto::NodeProto *> nodes) {
  llvm::StringSet<> read;
  for (const proto::NodeProto *node : nodes)
    for (StringRef value : getReadValues(*node))
      read.insert(value);
  for (const proto::ValueInfoProto *output : graph.getOutputs())
    read.insert(output->name());
  // Skip inputs whose value the user gives in `weights`, because no data is
  // needed.
  std::vector<std::string> unread;
  for (const proto::ValueInfoProto *input : graph.getInputs())
    if (!read.contains(input->name()) &&
        !options.weights.contains(input->name()))
      unread.push_back("'" + input->name() + "'");
  if (!unread.empty())
    graph.getModel().note(
        (unread.size() == 1 ? "input " : "inputs ") + listFirst(unread, 3) +
        (unread.size() == 1 ? " is" : " are") +
        " not read by any node, so the data for " +
        (unread.size() == 1 ? "it" : "them") +
        " has no effect; an exporter that gets one tensor for several inputs "
        "reads only one of them");
}

static Expected<OwningOpRef<ModuleOp>>
importRebatched(const Model &model, const ImportOptions &options,
                int64_t exported);

// Adds the values named `outputs` as results of the function. Compares the type
// of each value with the declared type.
static void addOutputs(FunctionImporter &function, const Graph &graph,
                       ArrayRef<StringRef> outputs) {
  llvm::StringMap<const proto::ValueInfoProto *> declared;
  for (const proto::ValueInfoProto *output : graph.getOutputs())
    declared[output->name()] = output;
  for (StringRef name : outputs) {
    Value value = function.materialize(name, "");
    if (!value)
      continue;
    if (const proto::ValueInfoProto *output = declared.lookup(name))
      if (Error error = checkOutput(graph.getModel(), *output, value))
        function.getModule().report(std::move(error));
    function.addOutput(name, value, Role::Output);
  }
}

// Imports a forward model without the outputs `leftOut`.
static Expected<OwningOpRef<ModuleOp>>
importForward(const Model &model, const ImportOptions &options,
              Rebatch *rebatch = nullptr, ArrayRef<StringRef> leftOut = {}) {
  Expected<Graph> graph = Graph::check(model, {&model.getProto().graph()});
  if (!graph)
    return graph.takeError();
  if (graph->getOutputs().empty())
    return model.error(ErrorKind::InvalidInput, "the graph has no outputs");
  ShapeBinder shapes(model, options, rebatch);
  // Exporters write the batch size into many shapes of a file. If --batch-size
  // asks for another size, importRebatched adapts the shapes.
  if (auto exported = shapes.findExportedBatch(graph->getInputs());
      exported && !rebatch)
    return importRebatched(model, options, *exported);
  ModuleImporter module(options, model.getContext(), rebatch);
  const llvm::StringMap<std::string> origins = findOrigins(*graph);
  const Trainables found = findTrainable(*graph, options.weights, origins);
  llvm::StringSet<> constants = findComputedNumbers(*graph, origins);
  constants.insert(found.numbers.begin(), found.numbers.end());
  module.setTrainable(found.parameters);
  module.setConstants(std::move(constants));
  FunctionImporter function(module, *graph, "forward");
  // A YieldOp hands the forward results to a program outside the graph, which
  // computes the loss. Import only the nodes before the YieldOp.
  SmallVector<StringRef> outputs = getYielded(*graph);
  bool isYielding = !outputs.empty();
  if (isYielding && !rebatch)
    model.note("this is a training graph of ORTModule; mpc takes its forward "
               "part, up to the values that YieldOp reads, " +
               llvm::join(outputs, ", ") + ", and leaves its gradients out");
  for (const proto::ValueInfoProto *output : graph->getOutputs())
    if (!isYielding)
      outputs.push_back(output->name());
  if (!leftOut.empty())
    replaceOutputs(*graph, leftOut, *options.lossSources, outputs);
  auto nodes = graph->getNodesFor(outputs);
  // If an input has no valid type, also report unsupported ops and lost layers:
  // the import would still fail after the user corrects the shapes.
  const bool isTrained = options.mode != ImportMode::Evaluation;
  LossContext losses = {*graph, nodes, isTrained, /*findFacts=*/nullptr};
  auto giveUp = [&](Error error) {
    warnOfLosses(losses);
    return llvm::joinErrors(std::move(error),
                            function.reportUnsupported(nodes));
  };
  // Without shapes and inputs no node can be imported.
  if (Error error = shapes.collect(graph->getInputs()))
    return giveUp(std::move(error));
  if (Error error = addInputs(function, shapes))
    return giveUp(std::move(error));
  function.importNodes(nodes);
  if (module.hasFailed() && options.lossSources && leftOut.empty() &&
      !rebatch) {
    const SmallVector<StringRef> unneeded =
        findUnneeded(function, outputs, *options.lossSources);
    if (!unneeded.empty()) {
      noteLeftOut(model, unneeded, module.finish().takeError());
      return importForward(model, options, rebatch, unneeded);
    }
  }
  auto findFacts = [&](StringRef name) -> ValueFacts {
    const ImportedValue &value = function.lookup(name);
    return {value.stateRole, value.constant ? &*value.constant : nullptr,
            value.aliasOf};
  };
  losses.findFacts = findFacts;
  warnOfLosses(losses);
  if (isTrained)
    noteUnread(*graph, options, nodes);
  if (!rebatch || !rebatch->isRecording())
    listUntrained(model, options, found);
  addOutputs(function, *graph, outputs);
  function.finish();
  return module.finish();
}

// Suggests ways to use a model whose batch size is fixed to `exported`: run
// `exported` samples at a time, or accumulate gradients over several batches.
static std::string describeSmallBatches(const ImportOptions &options,
                                        int64_t exported, int64_t wanted) {
  std::string remedy = "export it with a dynamic batch dimension "
                       "(dynamic_shapes of torch.onnx.export), or leave "
                       "--batch-size out";
  if (!options.findsSpeltOutSteps)
    return remedy + " and run it on " + std::to_string(exported) +
           " samples at a time";
  remedy += " and use --accumulate-grad-batches";
  return wanted % exported == 0
             ? remedy + " " + std::to_string(wanted / exported)
             : remedy;
}

// Warns of nodes that compute with a number equal to the exported batch size.
// The number may mean the batch, but the file does not tell. The import keeps
// the number.
static void warnNumbers(const Model &model, const ImportOptions &options,
                        const Rebatch &rebatch) {
  ArrayRef<std::string> nodes = rebatch.getNumbers();
  if (nodes.empty())
    return;
  std::string number = std::to_string(rebatch.getExported());
  model.warn(listFirst(nodes, 3) + (nodes.size() == 1 ? " has" : " have") +
             " the number " + number +
             " or its inverse, and the model was "
             "exported for a batch of " +
             number +
             ": if this number is the batch size, results for a batch of " +
             Twine(rebatch.getWanted()) + " are wrong; " +
             describeSmallBatches(options, rebatch.getExported(),
                                  rebatch.getWanted()));
}

// Imports, for a batch of options.batchSize samples, a model that was exported
// for batches of `exported` samples.
static Expected<OwningOpRef<ModuleOp>>
importRebatched(const Model &model, const ImportOptions &options,
                int64_t exported) {
  int64_t wanted = *options.batchSize;
  // First import the file unchanged, to record all shapes for the exported
  // batch.
  Rebatch rebatch(exported, wanted);
  {
    // Suppress diagnostics, because the second import repeats them.
    ScopedDiagnosticHandler quiet(model.getContext(),
                                  [](Diagnostic &) { return success(); });
    ImportOptions asExported = options;
    asExported.batchSize.reset();
    // --shape may state the wanted batch on axis 0, as in x=32x784. This import
    // needs the exported batch there.
    for (const proto::ValueInfoProto &input : model.getProto().graph().input())
      if (auto shape = asExported.shapes.find(input.name());
          shape != asExported.shapes.end() &&
          input.type().tensor_type().shape().dim_size() > 0 &&
          input.type().tensor_type().shape().dim(0).dim_value() == exported &&
          !shape->second.empty() && shape->second[0] == wanted)
        shape->second[0] = exported;
    auto reference = importForward(model, asExported, &rebatch);
    if (!reference)
      return reference.takeError();
  }
  // Second, import for the wanted batch. The recorded shapes tell whether a
  // number in a node's shape is the batch.
  rebatch.finishRecording();
  auto imported = importForward(model, options, &rebatch);
  if (imported) {
    warnNumbers(model, options, rebatch);
    return imported;
  }
  // Give every error the kind Unsupported: the file is valid, but cannot have
  // the wanted batch.
  Error errors = Error::success();
  for (const std::string &message : takeFindings(imported.takeError()).messages)
    errors = llvm::joinErrors(std::move(errors),
                              makeError(ErrorKind::Unsupported, message));
  return llvm::joinErrors(
      std::move(errors),
      model.error(ErrorKind::Unsupported,
                  "the model was exported for a batch of " + Twine(exported) +
                      " and cannot be imported for one of " + Twine(wanted) +
                      "; " + describeSmallBatches(options, exported, wanted)));
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

// Returns the path of the model file. If `path` is a directory of ONNX
// Runtime's training artifacts, returns its training_model.onnx.
static std::string getModelPath(StringRef path) {
  if (!llvm::sys::fs::is_directory(path))
    return path.str();
  llvm::SmallString<128> file = path;
  llvm::sys::path::append(file, "training_model.onnx");
  return file.str().str();
}

Expected<std::shared_ptr<Model>>
mpc::onnx_frontend::readModel(StringRef path, MLIRContext *context,
                              ArrayRef<std::string> skippedRepairs) {
  auto model = readRepaired(getModelPath(path), context, skippedRepairs);
  if (model)
    if (Error error = inlineFunctions(**model))
      return error;
  return model;
}

void mpc::onnx_frontend::emitLog(const Model &model, bool withNotes) {
  for (const LogEntry &entry : model.getLog())
    if (!entry.isNote)
      model.warn(entry.message);
  for (const LogEntry &entry : model.getLog())
    if (entry.isNote && withNotes)
      model.note(entry.message);
}

static bool updatesLists(const Model &model) {
  return llvm::any_of(model.getProto().graph().node(),
                      [](const proto::NodeProto &node) {
                        return findGradientList(node).has_value();
                      });
}

static Expected<OwningOpRef<ModuleOp>>
importOnce(const Model &model, const ImportOptions &options) {
  // Fail before any import if the model uses no name of a weights file.
  if (Error error = checkWeights(model, options))
    return error;
  emitLog(model, options.mode != ImportMode::Evaluation);
  // Training artifacts are several graphs in files beside each other.
  if (isTrainingArtifact(model))
    return importArtifacts(model, options);
  auto refuseOptimizer = [&]() -> Error {
    return model.error(ErrorKind::Usage,
                       "an optimizer graph goes with a training graph of ONNX "
                       "Runtime's or one with gradients as outputs, and this "
                       "model is neither; leave --optimizer-model out, and "
                       "choose one with --optimizer");
  };
  bool hasOptimizer = !options.optimizerModel.empty();
  // training_info contains an optimizer, so refuse --optimizer-model.
  if (model.getProto().training_info_size() != 0) {
    if (hasOptimizer)
      return refuseOptimizer();
    return importTrainingInfo(model, options);
  }
  // A graph that computes gradients or updates is a training step.
  if (options.findsSteps) {
    Expected<Graph> graph = Graph::check(model, {&model.getProto().graph()});
    if (!graph)
      return graph.takeError();
    std::vector<std::string> notes;
    // Look for updated parameters among the outputs first. Look for gradients
    // only if there are none.
    Expected<std::optional<TrainingStep>> step =
        findTrainingStep(*graph, options, notes);
    if (!step)
      return step.takeError();
    if (!*step && options.findsSpeltOutSteps)
      *step = findGradientGraph(*graph, options, notes);
    for (const std::string &note : notes)
      model.note(note);
    if (*step && hasOptimizer && (*step)->gradients.empty())
      return refuseOptimizer();
    if (*step)
      return importTrainingStep(*graph, **step, options);
  }
  // All other models are imported as forward models.
  if (hasOptimizer)
    return refuseOptimizer();
  if (std::string what = describeOptimizerGraph(model); !what.empty()) {
    // mpc cannot import an optimizer that updates lists of tensors.
    if (updatesLists(model))
      return model.error(ErrorKind::Unsupported, what);
    model.note(what);
  }
  return importForward(model, options);
}

// Records the name that the file uses on each variable whose symbol differs.
// Users may select a variable by either name.
static void addFileNames(const Model &model, ModuleOp module) {
  for (auto variable : module.getOps<VariableOp>()) {
    StringRef symbol = variable.getSymName(), name = getONNXName(symbol);
    std::string inFile = model.findFormerName(name);
    if (inFile.empty() && symbol != name)
      inFile = name.str();
    if (!inFile.empty())
      variable->setAttr(kFileNameAttr,
                        StringAttr::get(module.getContext(), inFile));
  }
}

// Imports the model. If a builder needs a value from options.offered, like a
// shape, imports the model again with the value as a constant. Emits only the
// diagnostics of the last import.
Expected<OwningOpRef<ModuleOp>>
mpc::onnx_frontend::importModel(const Model &model,
                                const ImportOptions &options) {
  ImportOptions bound = options;
  // Hold diagnostics back: a repeated import would emit them twice.
  while (true) {
    // Receives the names in `offered` whose values this import needs.
    llvm::StringSet<> demanded;
    bound.demanded = &demanded;
    std::vector<Diagnostic> said;
    auto imported = [&] {
      ScopedDiagnosticHandler hold(model.getContext(), [&](Diagnostic &each) {
        said.push_back(std::move(each));
        return success();
      });
      return importOnce(model, bound);
    }();
    if (imported || demanded.empty()) {
      for (Diagnostic &each : said)
        model.getContext()->getDiagEngine().emit(std::move(each));
      if (imported)
        addFileNames(model, **imported);
      return imported;
    }
    // Move the needed values from `offered` to `weights` for the next import.
    llvm::consumeError(imported.takeError());
    for (const auto &name : demanded) {
      bound.weights[name.getKey()] = bound.offered.lookup(name.getKey());
      bound.offered.erase(name.getKey());
      bound.bound.insert(name.getKey());
    }
  }
}

Expected<TensorMap>
mpc::onnx_frontend::readWeights(StringRef path, MLIRContext *context,
                                ArrayRef<std::string> skippedRepairs) {
  auto model = readRepaired(path, context, skippedRepairs);
  if (!model)
    return model.takeError();
  TensorMap weights;
  for (const proto::TensorProto &tensor :
       (*model)->getProto().graph().initializer()) {
    auto decoded =
        (*model)->decode(tensor, "initializer '" + tensor.name() + "'");
    if (!decoded)
      return decoded.takeError();
    weights.try_emplace(tensor.name(), *decoded);
  }
  return weights;
}

std::string mpc::onnx_frontend::readPreparation(const Model &model) {
  return findMetadata(model.getProto(), kPreparation).str();
}

ModelIdentity mpc::onnx_frontend::identifyModel(const Model &model) {
  return {model.getHash().str(), model.getOpset("")};
}

Expected<ModelSummary> mpc::onnx_frontend::summarizeModel(const Model &model) {
  const proto::ModelProto &file = model.getProto();
  const proto::GraphProto &graph = file.graph();
  ModelSummary summary;
  summary.producer =
      StringRef(file.producer_name() + " " + file.producer_version())
          .trim()
          .str();
  summary.irVersion = file.ir_version();
  for (const auto &opset : file.opset_import())
    summary.opsets.emplace_back(normalizeDomain(opset.domain()).str(),
                                opset.version());
  for (const auto &input : graph.input())
    summary.inputs.emplace_back(input.name(), printType(model, input.type()));
  for (const auto &output : graph.output())
    summary.outputs.emplace_back(output.name(),
                                 printType(model, output.type()));
  for (const auto &node : graph.node())
    ++summary.ops[getOpName(node)];
  // Do not count float tensors of one element: they are usually constants, not
  // parameters.
  summary.initializers = graph.initializer_size();
  for (const auto &tensor : graph.initializer()) {
    auto decoded = model.decode(tensor, "initializer '" + tensor.name() + "'");
    if (!decoded)
      return decoded.takeError();
    if (decoded->isFloat() && decoded->getNumElements() > 1)
      summary.parameters += decoded->getNumElements();
  }
  summary.hasTrainingInfo = file.training_info_size() != 0;
  return summary;
}
