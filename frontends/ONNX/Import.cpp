// Import of forward models, and the choice between the kinds of models.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Import.h"

#include "compiler/Dialect/MPC/FileNames.h"
#include "frontends/ONNX/Importer/Importer.h"
#include "frontends/ONNX/Importer/Shapes.h"
#include "frontends/ONNX/Model/Functions.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Model/Names.h"
#include "frontends/ONNX/Model/Weights.h"
#include "frontends/ONNX/Repair/Origins.h"
#include "frontends/ONNX/Repair/Repair.h"
#include "frontends/ONNX/Summary.h"
#include "frontends/ONNX/Training/Artifacts.h"
#include "frontends/ONNX/Training/FoldedParameters.h"
#include "frontends/ONNX/Training/LostLayers.h"
#include "frontends/ONNX/Training/SharedParameters.h"
#include "frontends/ONNX/Training/StepGraph.h"
#include "frontends/ONNX/Training/StepValues.h"
#include "frontends/ONNX/Training/Trainable.h"
#include "frontends/ONNX/Training/TrainingInfo.h"

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

// An input with a given value is as good as an initializer: state where it is
// more than a scalar of floats, else a constant that may determine shapes, as
// is one that a builder asked for.
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
    // A given value must fit the declared type.
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

// What the file says of an output's element type must be true; of its shape,
// what the nodes compute holds.
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
  // Tools that edit graphs leave old shapes behind; other runtimes pass over
  // them, too.
  if (declared.has_shape() && declared.shape().dim_size() != type.getRank())
    model.warn(message);
  return Error::success();
}

// Nothing in the file says what these are: the user may know better.
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
        " not trained: the name is a module's, but the file does not say "
        "that it is a parameter, and no layer reads it; --train REGEX "
        "chooses all that is trained");
  if (!found.constants.empty())
    model.note(list(found.constants) +
               " taken as constant: no layer reads it as a weight, and no "
               "module gave it its name; --train REGEX trains it, and "
               "inspect --parameters lists all");
}

// Whoever gives an exporter one tensor for several inputs gets a model that
// reads one of them: training then seems to go on, and learns nothing.
static void noteUnread(const Graph &graph, const ImportOptions &options,
                       ArrayRef<const proto::NodeProto *> nodes) {
  // What nodes, their bodies and the graph's outputs read.
  llvm::StringSet<> read;
  for (const proto::NodeProto *node : nodes)
    for (StringRef value : getReadValues(*node))
      read.insert(value);
  for (const proto::ValueInfoProto *output : graph.getOutputs())
    read.insert(output->name());
  // An input with a given value is state: nobody expects data for it.
  std::vector<std::string> unread;
  for (const proto::ValueInfoProto *input : graph.getInputs())
    if (!read.contains(input->name()) &&
        !options.weights.contains(input->name()))
      unread.push_back("'" + input->name() + "'");
  if (!unread.empty())
    graph.getModel().note(
        (unread.size() == 1 ? "input " : "inputs ") + listFirst(unread, 3) +
        (unread.size() == 1 ? " is" : " are") +
        " read by nothing, and what the data has for " +
        (unread.size() == 1 ? "it" : "them") +
        " changes nothing; an exporter that is given one tensor for several "
        "inputs leaves one of them");
}

static Expected<OwningOpRef<ModuleOp>>
importRebatched(const Model &model, const ImportOptions &options,
                int64_t exported);

// Adds `outputs`, each compared with what the file declares of it.
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

static Expected<OwningOpRef<ModuleOp>>
importForward(const Model &model, const ImportOptions &options,
              Rebatch *rebatch = nullptr) {
  Expected<Graph> graph = Graph::check(model, {&model.getProto().graph()});
  if (!graph)
    return graph.takeError();
  if (graph->getOutputs().empty())
    return model.error(ErrorKind::InvalidInput, "the graph has no outputs");
  ShapeBinder shapes(model, options, rebatch);
  // The file's batch may not be the one asked for: then every shape in it has
  // to be followed.
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
  // Of a graph that leaves the loss to the program around it, the forward part.
  SmallVector<StringRef> outputs = getYielded(*graph);
  bool isYielding = !outputs.empty();
  if (isYielding && !rebatch)
    model.note("taken as the forward model of what its YieldOp gives, " +
               llvm::join(outputs, ", ") + "; its gradients are left out");
  for (const proto::ValueInfoProto *output : graph->getOutputs())
    if (!isYielding)
      outputs.push_back(output->name());
  auto nodes = graph->getNodesFor(outputs);
  // Whoever has to bind a dimension also wants to know that it is in vain, and
  // what the file has lost.
  const bool isTrained = options.mode != ImportMode::Evaluation;
  auto giveUp = [&](Error error) {
    if (isTrained)
      warnLost(*graph, nodes);
    return llvm::joinErrors(std::move(error),
                            function.reportUnsupported(nodes));
  };
  // Shapes and inputs first: without them no node can be imported.
  if (Error error = shapes.collect(graph->getInputs()))
    return giveUp(std::move(error));
  if (Error error = addInputs(function, shapes))
    return giveUp(std::move(error));
  function.importNodes(nodes);
  warnShared(function, *graph, nodes);
  if (isTrained) {
    warnLost(*graph, nodes);
    warnFolded(function, *graph);
    noteUnread(*graph, options, nodes);
  }
  if (!rebatch || !rebatch->isRecording())
    listUntrained(model, options, found);
  addOutputs(function, *graph, outputs);
  function.finish();
  return module.finish();
}

// What to do with a model that keeps the batch of its file: it is run on so
// many samples at a time, and trained on several such batches a step.
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

// Says which numbers may be the exported batch, and are taken as they are.
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
             ": if the batch is meant, "
             "results for one of " +
             Twine(rebatch.getWanted()) + " are wrong; " +
             describeSmallBatches(options, rebatch.getExported(),
                                  rebatch.getWanted()));
}

// Imports a model for another batch than it was exported for.
static Expected<OwningOpRef<ModuleOp>>
importRebatched(const Model &model, const ImportOptions &options,
                int64_t exported) {
  int64_t wanted = *options.batchSize;
  // First as the file is: the shapes of all values are noted for its batch.
  Rebatch rebatch(exported, wanted);
  {
    // Takes notes. The second import says whatever there is to warn of.
    ScopedDiagnosticHandler quiet(model.getContext(),
                                  [](Diagnostic &) { return success(); });
    ImportOptions asExported = options;
    asExported.batchSize.reset();
    // A shape that is given for the batch asked for has the file's batch in
    // this import.
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
  // Then for the batch asked for. Where a node's shape has the file's batch,
  // the noted shapes tell whether it is one.
  rebatch.finishRecording();
  auto imported = importForward(model, options, &rebatch);
  if (imported) {
    warnNumbers(model, options, rebatch);
    return imported;
  }
  // Every finding says why this batch is impossible, so the exit code is that
  // of what is unsupported.
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

// A directory holds ONNX Runtime's training artifacts.
static std::string getModelPath(StringRef path) {
  if (!llvm::sys::fs::is_directory(path))
    return path.str();
  llvm::SmallString<128> file = path;
  llvm::sys::path::append(file, "training_model.onnx");
  return file.str().str();
}

Expected<std::shared_ptr<Model>>
mpc::onnx_frontend::readModel(StringRef path, MLIRContext *context) {
  auto model = readRepaired(getModelPath(path), context);
  if (model)
    if (Error error = inlineFunctions(**model))
      return error;
  return model;
}

static bool hasLists(const Model &model) {
  return llvm::any_of(model.getProto().graph().input(),
                      [](const proto::ValueInfoProto &input) {
                        return input.type().has_sequence_type();
                      });
}

static Expected<OwningOpRef<ModuleOp>>
importOnce(const Model &model, const ImportOptions &options) {
  // Values given with --weights that fit nothing are a usage error, whatever
  // the model is.
  if (Error error = checkWeights(model, options))
    return error;
  for (const std::string &warning : model.getWarnings())
    model.warn(warning);
  if (options.mode != ImportMode::Evaluation)
    for (const std::string &note : model.getNotes())
      model.note(note);
  // Files of ONNX Runtime's training API: several graphs that belong together.
  if (isTrainingArtifact(model))
    return importArtifacts(model, options);
  auto refuseOptimizer = [&]() -> Error {
    return model.error(ErrorKind::Usage,
                       "an optimizer graph goes with a training graph of ONNX "
                       "Runtime's or one with gradients as outputs, and this "
                       "is none; leave --optimizer-model out, and choose with "
                       "--optimizer");
  };
  bool hasOptimizer = !options.optimizerModel.empty();
  // training_info has an optimizer in it.
  if (model.getProto().training_info_size() != 0) {
    if (hasOptimizer)
      return refuseOptimizer();
    return importTrainingInfo(model, options);
  }
  // A graph that computes gradients or updates is taken as a training step.
  if (options.findsSteps) {
    Expected<Graph> graph = Graph::check(model, {&model.getProto().graph()});
    if (!graph)
      return graph.takeError();
    std::vector<std::string> notes;
    // A whole step first; else one whose outputs are gradients.
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
  // Anything else is a forward model.
  if (hasOptimizer)
    return refuseOptimizer();
  if (std::string what = describeOptimizerGraph(model); !what.empty()) {
    // Lists of tensors are no values of the IR.
    if (hasLists(model))
      return model.error(ErrorKind::Unsupported, what);
    model.note(what);
  }
  return importForward(model, options);
}

// Whoever knows the file's names may go by them.
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

// Imports once more for as long as builders ask for more of the values that are
// offered. What the last import says is what is heard.
Expected<OwningOpRef<ModuleOp>>
mpc::onnx_frontend::importModel(const Model &model,
                                const ImportOptions &options) {
  ImportOptions bound = options;
  // What is said is held back: an import that is done again would say it twice.
  while (true) {
    // Each import may ask for values that --weights offers and that are not
    // bound yet.
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
    // More values are known from here on.
    llvm::consumeError(imported.takeError());
    for (const auto &name : demanded) {
      bound.weights[name.getKey()] = bound.offered.lookup(name.getKey());
      bound.offered.erase(name.getKey());
      bound.bound.insert(name.getKey());
    }
  }
}

Expected<TensorMap> mpc::onnx_frontend::readWeights(StringRef path,
                                                    MLIRContext *context) {
  auto model = readRepaired(path, context);
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
  // What the file says of itself.
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
  // Inputs, outputs and ops.
  for (const auto &input : graph.input())
    summary.inputs.emplace_back(input.name(), printType(model, input.type()));
  for (const auto &output : graph.output())
    summary.outputs.emplace_back(output.name(),
                                 printType(model, output.type()));
  for (const auto &node : graph.node())
    ++summary.ops[getOpName(node)];
  // Parameters are floats of more than one element.
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
