// Import of forward models, and the choice between the kinds of models.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Import.h"

#include "frontends/ONNX/Artifacts.h"
#include "frontends/ONNX/Importer.h"
#include "frontends/ONNX/Shapes.h"
#include "frontends/ONNX/Trainable.h"
#include "frontends/ONNX/TrainingInfo.h"
#include "frontends/ONNX/Weights.h"

#include "llvm/ADT/MapVector.h"
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
// more than a scalar of floats, else a constant that may determine shapes.
static void bindGivenInput(FunctionImporter &function, StringRef name,
                           const HostTensor &value) {
  ImportedValue &entry = function.lookup(name);
  entry.constant = value;
  if (value.isFloat())
    entry.stateRole = function.getModule().getParameterRole(name, value.type);
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
      function.addInput(input->name(), *type, "data");
      continue;
    }
    Expected<HostTensor> value =
        fitWeight(graph.getModel(), "input '" + input->name() + "'",
                  weight->second, *type);
    if (!value) {
      errors = llvm::joinErrors(std::move(errors), value.takeError());
      continue;
    }
    bindGivenInput(function, input->name(), *value);
  }
  return errors;
}

// What the file says of an output must be true, as far as it says something.
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
  bool fits = *element == type.getElementType();
  if (declared.has_shape())
    fits &= declared.shape().dim_size() == type.getRank();
  if (fits)
    return Error::success();
  std::string found;
  llvm::raw_string_ostream(found) << Type(type);
  return model.error(ErrorKind::Invalid,
                     "graph output '" + output.name() + "' is declared as " +
                         printType(model, output.type()) + ", but is " + found);
}

// Exporters merge initializers that are equal and give each reader an Identity.
// What the file says is done, but parameters that start equal need not be meant
// to stay so.
static void warnShared(FunctionImporter &function,
                       ArrayRef<const proto::NodeProto *> nodes) {
  llvm::StringSet<> read;
  llvm::MapVector<StringRef, std::vector<StringRef>> names;
  for (const proto::NodeProto *node : nodes) {
    if (node->op_type() != "Identity" || node->output_size() != 1) {
      for (const std::string &input : node->input())
        read.insert(input);
      continue;
    }
    const ImportedValue &value = function.lookup(node->output(0));
    if (!value.aliasOf.empty() && value.stateRole == "parameter")
      names[value.aliasOf].push_back(node->output(0));
  }
  for (auto &[parameter, aliases] : names) {
    llvm::erase_if(aliases,
                   [&](StringRef name) { return !read.contains(name); });
    if (aliases.empty() || (aliases.size() == 1 && !read.contains(parameter)))
      continue;
    function.getModule().warn(
        "parameter '" + parameter + "' also stands for '" +
        llvm::join(aliases, "', '") +
        "' (Identity), and they are trained as one; exporters merge parameters "
        "that are equal unless they export in training mode");
  }
}

static Expected<OwningOpRef<ModuleOp>>
importForward(const Model &model, const ImportOptions &options) {
  Expected<Graph> graph = Graph::check(model, {&model.getProto().graph()});
  if (!graph)
    return graph.takeError();
  if (graph->getOutputs().empty())
    return model.error(ErrorKind::Invalid, "the graph has no outputs");
  ShapeBinder shapes(model, options);
  if (Error error = shapes.collect(graph->getInputs()))
    return error;
  ModuleImporter module(options, model.getContext());
  module.setTrainable(findTrainable(*graph, options.weights));
  FunctionImporter function(module, *graph, "forward");
  SmallVector<StringRef> outputs;
  for (const proto::ValueInfoProto *output : graph->getOutputs())
    outputs.push_back(output->name());
  auto nodes = graph->getNodesFor(outputs);
  // Whoever has to bind a dimension also wants to know that it is in vain.
  if (Error error = addInputs(function, shapes))
    return llvm::joinErrors(std::move(error),
                            function.reportUnsupported(nodes));
  function.importNodes(nodes);
  warnShared(function, nodes);
  for (const proto::ValueInfoProto *output : graph->getOutputs()) {
    Value value = function.materialize(output->name(), "");
    if (!value)
      continue;
    if (Error error = checkOutput(model, *output, value))
      module.report(std::move(error));
    function.addOutput(output->name(), value, "output");
  }
  function.finish();
  return module.finish();
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

Expected<OwningOpRef<ModuleOp>>
mpc::onnx_frontend::importModel(StringRef path, const ImportOptions &options,
                                MLIRContext *context) {
  auto model = Model::read(getModelPath(path), context);
  if (!model)
    return model.takeError();
  if (Error error = checkWeights(**model, options))
    return error;
  if (isTrainingArtifact(**model))
    return importArtifacts(**model, options);
  if ((*model)->getProto().training_info_size() != 0)
    return importTrainingInfo(**model, options);
  return importForward(**model, options);
}

Expected<TensorMap> mpc::onnx_frontend::readWeights(StringRef path,
                                                    MLIRContext *context) {
  auto model = Model::read(path, context);
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

Expected<ModelSummary>
mpc::onnx_frontend::summarizeModel(StringRef path, MLIRContext *context) {
  auto model = Model::read(path, context);
  if (!model)
    return model.takeError();
  const proto::ModelProto &file = (*model)->getProto();
  const proto::GraphProto &graph = file.graph();
  ModelSummary summary;
  summary.producer = file.producer_name() + " " + file.producer_version();
  summary.irVersion = file.ir_version();
  for (const auto &opset : file.opset_import())
    summary.opsets.emplace_back(normalizeDomain(opset.domain()).str(),
                                opset.version());
  auto describe = [&](const proto::ValueInfoProto &value) {
    return value.name() + ": " + printType(**model, value.type());
  };
  for (const auto &input : graph.input())
    summary.inputs.push_back(describe(input));
  for (const auto &output : graph.output())
    summary.outputs.push_back(describe(output));
  for (const auto &node : graph.node())
    ++summary.ops[getOpName(node)];
  summary.initializers = graph.initializer_size();
  for (const auto &tensor : graph.initializer()) {
    auto decoded =
        (*model)->decode(tensor, "initializer '" + tensor.name() + "'");
    if (!decoded)
      return decoded.takeError();
    if (decoded->isFloat() && decoded->getNumElements() > 1)
      summary.parameters += decoded->getNumElements();
  }
  summary.hasTrainingInfo = file.training_info_size() != 0;
  return summary;
}
