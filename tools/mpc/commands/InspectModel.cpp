// mpc inspect for models: prints inputs, outputs and ops; each parameter, and
// if mpc would train it; and the layers as a table, as Keras does.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "frontends/ONNX/Summary.h"
#include "tools/mpc/commands/Inspect.h"
#include "tools/mpc/commands/InspectJSON.h"
#include "tools/mpc/flags/DeclaredShapes.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/ModelRecord.h"
#include "tools/mpc/print/PrintableStream.h"
#include "tools/mpc/print/TrainReport.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

static void printParameters(llvm::raw_ostream &os,
                            const std::vector<ParameterSummary> &parameters) {
  int64_t count = 0, elements = 0;
  std::vector<std::vector<std::string>> rows;
  for (const ParameterSummary &parameter : parameters) {
    int64_t size = parameter.type.getNumElements();
    count += parameter.isTrained;
    elements += parameter.isTrained ? size : 0;
    rows.push_back(
        {"  " + parameter.name,
         elementWord(parameter.type.getElementType()) + " " +
             describeShape(parameter.type.getShape()),
         formatCount(size),
         parameter.isTrained ? "trained" : "not trained: " + parameter.why});
  }
  os << "parameters: " << parameters.size() << "; trained by default: " << count
     << ", " << formatCount(elements) << " elements\n";
  printTable(os, rows);
  os << "--train and --freeze choose by name; a parameter that no gradient of "
        "the loss reaches is never trained\n";
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

namespace {
/// Maps the name of a model node to its result type. If several ops come from
/// one node, the last op has the type.
using NodeTypes = llvm::StringMap<mlir::RankedTensorType>;
} // namespace

// Imports the model, with batch size `batch` if given, and returns the types of
// all nodes that the import keeps. An error if the import fails.
static llvm::Expected<NodeTypes> importTypes(const Model &model,
                                             mlir::MLIRContext &context,
                                             std::optional<int64_t> batch) {
  ImportOptions options;
  options.mode = ImportMode::Evaluation;
  options.findsSteps = false;
  options.batchSize = batch;
  mlir::ScopedDiagnosticHandler quiet(
      &context, [](mlir::Diagnostic &) { return mlir::success(); });
  auto module = importModel(model, options);
  if (!module)
    return module.takeError();
  NodeTypes types;
  if (auto forward =
          (*module)->lookupSymbol<mlir::func::FuncOp>(kForwardFunction))
    for (mlir::Operation &op : forward.getBody().front())
      if (op.getNumResults() > 0)
        if (auto type = mlir::dyn_cast<mlir::RankedTensorType>(
                op.getResult(0).getType()))
          types[getNodeName(&op)] = type;
  return types;
}

// Formats a type as a function of the batch size, which is called `symbol`.
// `two` and `three` are the type for batch sizes 2 and 3: f32[4,8] and f32[6,8]
// give f32[2*N,8].
static std::string printBatched(mlir::RankedTensorType two,
                                mlir::RankedTensorType three,
                                llvm::StringRef symbol) {
  std::string text = elementWord(two.getElementType()) + "[";
  for (auto [i, extent] : llvm::enumerate(two.getShape())) {
    int64_t other = i < three.getShape().size() ? three.getShape()[i] : -1;
    text += i ? "," : "";
    if (extent == other)
      text += std::to_string(extent);
    else if (extent % 2 == 0 && extent / 2 * 3 == other)
      text +=
          (extent == 2 ? "" : std::to_string(extent / 2) + "*") + symbol.str();
    else
      text += "?";
  }
  return text + "]";
}

// Sets the missing types of layers by importing the model for two batch sizes.
// Does nothing if the import fails, for example because another dimension is
// open.
static void inferTypes(const Model &model, mlir::MLIRContext &context,
                       std::vector<LayerSummary> &layers) {
  if (llvm::none_of(
          layers, [](const LayerSummary &layer) { return layer.type.empty(); }))
    return;
  // The batch is called like axis 0 of the first input where axis 0 is open.
  std::string symbol;
  for (const DeclaredShape &input : readDeclaredInputs(model))
    if (symbol.empty() && input.dimensions && input.isOpen(0))
      symbol = input.dimensions->front();
  bool isOpen = !symbol.empty();
  // An extent that differs between the two imports depends on the batch size.
  auto two = importTypes(model, context,
                         isOpen ? std::optional<int64_t>(2) : std::nullopt);
  if (!two)
    return llvm::consumeError(two.takeError());
  auto three =
      isOpen ? importTypes(model, context, 3) : llvm::Expected<NodeTypes>(*two);
  if (!three)
    return llvm::consumeError(three.takeError());
  for (LayerSummary &layer : layers) {
    auto first = two->lookup(layer.name), second = three->lookup(layer.name);
    if (layer.type.empty() && first && second)
      layer.type = printBatched(first, second, symbol);
  }
}

static void printLayers(llvm::raw_ostream &os,
                        const std::vector<LayerSummary> &layers) {
  std::vector<std::vector<std::string>> rows = {
      {"  node", "op", "output", "elements", "parameters"}};
  for (const LayerSummary &layer : layers)
    rows.push_back({"  " + layer.name, layer.op,
                    layer.type.empty() ? "?" : layer.type,
                    layer.elements ? formatCount(layer.elements) : "",
                    llvm::join(layer.parameters, ", ")});
  os << "layers: " << layers.size() << "\n";
  printTable(os, rows);
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

// Prints what a trained model records about its training.
static void printTraining(llvm::raw_ostream &os, const ModelRecord &record) {
  for (auto [title, flags] : {std::pair("loss", &record.loss),
                              {"metrics", &record.metrics},
                              {"precision", &record.precision},
                              {"preparation", &record.preparation}})
    if (!flags->empty())
      os << "trained with, " << title << ": " << printable(printFlags(*flags))
         << "\n";
  if (!record.classes.empty())
    os << "classes: " << record.classes.size() << ": "
       << printable(llvm::join(record.classes, ", ")) << "\n";
}

static void printModel(llvm::raw_ostream &os, const std::string &file,
                       const ModelSummary &summary) {
  os << file << ": ONNX model, IR version " << summary.irVersion;
  for (const auto &[domain, version] : summary.opsets)
    os << ", " << (domain.empty() ? "opset" : printable(domain)) << " "
       << version;
  if (!summary.producer.empty())
    os << ", by " << printable(summary.producer);
  os << "\n";
  for (const auto &[name, type] : summary.inputs)
    os << "input   " << printable(name) << ": " << type << "\n";
  for (const auto &[name, type] : summary.outputs)
    os << "output  " << printable(name) << ": " << type << "\n";
  os << "initializers: " << summary.initializers << ", " << summary.parameters
     << " float elements\n";
  if (summary.hasTrainingInfo)
    os << "has training_info\n";
  os << "ops:";
  for (const auto &[name, count] : summary.ops)
    os << " " << printable(name) << " x" << count;
  os << "\n";
  printTraining(os, readModelRecord(file));
}

// Describes the model as a JSON object. Adds layers and parameters on request.
static llvm::Expected<nlohmann::json>
describeModel(Driver &driver, const std::string &file,
              const ModelSummary &summary, const InspectOptions &options) {
  const Model &model = driver.getModel();
  nlohmann::json object = describe(file, summary);
  if (const ModelRecord record = readModelRecord(file); !record.isEmpty())
    object["training"] = {{"classes", record.classes},
                          {"loss", record.loss},
                          {"metrics", record.metrics},
                          {"precision", record.precision},
                          {"preparation", record.preparation}};
  if (options.layers) {
    auto layers = describeLayers(model);
    if (!layers)
      return layers.takeError();
    inferTypes(model, driver.getContext(), *layers);
    object["layers"] = describe(*layers);
  }
  if (options.parameters) {
    auto parameters = describeParameters(model);
    if (!parameters)
      return parameters.takeError();
    object["parameters"] = describe(*parameters);
  }
  return object;
}

ExitCode mpc::tools::inspectModel(const std::string &file,
                                  const InspectOptions &options) {
  Driver driver;
  if (llvm::Error error = driver.readModel(file, options.noRepair))
    return reportError(std::move(error));
  const Model &model = driver.getModel();
  auto summary = summarizeModel(model);
  if (!summary)
    return reportError(summary.takeError());
  if (options.isJSON) {
    auto object = describeModel(driver, file, *summary, options);
    if (!object)
      return reportError(object.takeError());
    printJSON(*object);
    return ExitCode::Done;
  }
  PrintableStream os(llvm::outs());
  printModel(os, file, *summary);
  if (options.layers) {
    auto layers = describeLayers(model);
    if (!layers)
      return reportError(layers.takeError());
    inferTypes(model, driver.getContext(), *layers);
    printLayers(os, *layers);
  }
  if (options.parameters) {
    auto parameters = describeParameters(model);
    if (!parameters)
      return reportError(parameters.takeError());
    printParameters(os, *parameters);
  }
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Training artifacts
//===----------------------------------------------------------------------===//

static std::vector<std::string> findGraphs(const std::string &folder) {
  std::vector<std::string> found;
  for (const char *name :
       {"training_model.onnx", "optimizer_model.onnx", "eval_model.onnx"})
    if (std::string file = folder + "/" + name; llvm::sys::fs::exists(file))
      found.push_back(file);
  return found;
}

bool mpc::tools::isTrainingFolder(const std::string &folder) {
  return !findGraphs(folder).empty();
}

ExitCode mpc::tools::inspectTrainingFolder(const std::string &folder,
                                           const InspectOptions &options) {
  for (const std::string &file : findGraphs(folder))
    if (ExitCode code = inspectModel(file, options); code != ExitCode::Done)
      return code;
  return ExitCode::Done;
}
