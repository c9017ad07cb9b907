// mpc-translate: converts between ONNX and MLIR without the rest of the
// compiler, for developers and tests.
//
//   mpc-translate --import-onnx model.onnx --batch-size=32
//   mpc-translate --export-onnx model.onnx --weights=values.onnx -o new.onnx
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/Export.h"
#include "frontends/ONNX/Import.h"
#include "frontends/ONNX/Importer/SupportedOps.h"
#include "frontends/ONNX/Repair/Repair.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

using namespace mpc::onnx_frontend;
namespace cl = llvm::cl;

enum class Action { ImportONNX, ExportONNX, ListOps, ListRepairs };

static cl::opt<Action>
    action(cl::desc("what to do:"), cl::Required,
           cl::values(clEnumValN(Action::ImportONNX, "import-onnx",
                                 "import an ONNX file"),
                      clEnumValN(Action::ExportONNX, "export-onnx",
                                 "write an ONNX file with new weights"),
                      clEnumValN(Action::ListOps, "list-onnx-ops",
                                 "print the ONNX ops that can be imported"),
                      clEnumValN(Action::ListRepairs, "list-repairs",
                                 "print what exporters lose, and the "
                                 "repairs")));
static cl::opt<std::string> input(cl::Positional, cl::desc("<file>"));
static cl::opt<std::string> output("o", cl::init("-"), cl::desc("output file"));
static cl::list<std::string>
    shapes("shape", cl::desc("shape of an input: x=32x3x224x224"));
static cl::opt<int64_t> batchSize("batch-size", cl::init(0),
                                  cl::desc("the dynamic first dimension"));
static cl::opt<bool> training("training",
                              cl::desc("BatchNormalization and Dropout in "
                                       "training mode"));
static cl::opt<bool> evaluation("evaluation",
                                cl::desc("BatchNormalization and Dropout in "
                                         "evaluation mode"));
static cl::opt<std::string> weights("weights",
                                    cl::desc("ONNX file with parameters"));
static cl::opt<std::string>
    optimizerModel("optimizer-model", cl::desc("optimizer graph of artifacts"));
static cl::opt<bool>
    locations("locations", cl::desc("print locations: the ONNX nodes' names"));

static int fail(llvm::Error error) {
  Findings findings = takeFindings(std::move(error));
  for (const std::string &message : findings.messages)
    llvm::WithColor::error(llvm::errs(), "mpc-translate") << message << '\n';
  return findings.exitCode;
}

// Parses x=32x3x8x8 into the shape of input x.
static llvm::Error addShape(llvm::StringRef text, ImportOptions &options) {
  auto [name, extents] = text.rsplit('=');
  llvm::SmallVector<llvm::StringRef> parts;
  extents.split(parts, 'x');
  std::vector<int64_t> shape;
  for (llvm::StringRef part : parts)
    if (part.getAsInteger(10, shape.emplace_back()))
      return makeError(ErrorKind::Usage,
                       "expected --shape NAME=AxBxC, found '" + text + "'");
  options.shapes[name.str()] = std::move(shape);
  return llvm::Error::success();
}

static llvm::Expected<ImportOptions> getOptions(mlir::MLIRContext &context) {
  ImportOptions options;
  for (const std::string &shape : shapes)
    if (llvm::Error error = addShape(shape, options))
      return error;
  if (batchSize > 0)
    options.batchSize = batchSize;
  if (training || evaluation)
    options.mode = training ? ImportMode::Training : ImportMode::Evaluation;
  options.optimizerModel = optimizerModel;
  // Record the names in the weight file: the import fails if the model has
  // none of them.
  if (!weights.empty()) {
    llvm::Expected<TensorMap> tensors = readWeights(weights, &context);
    if (!tensors)
      return tensors.takeError();
    for (const auto &entry : *tensors)
      options.weightFiles[weights].push_back(entry.first().str());
    options.weights = std::move(*tensors);
  }
  return options;
}

static llvm::Error importONNX(llvm::raw_ostream &os) {
  mlir::MLIRContext context;
  llvm::Expected<ImportOptions> options = getOptions(context);
  if (!options)
    return options.takeError();
  auto model = readModel(input, &context);
  if (!model)
    return model.takeError();
  auto module = importModel(**model, *options);
  if (!module)
    return module.takeError();
  mlir::OpPrintingFlags flags;
  if (locations)
    flags.enableDebugInfo();
  (*module)->print(os, flags);
  return llvm::Error::success();
}

static llvm::Error exportONNX() {
  mlir::MLIRContext context;
  llvm::Expected<TensorMap> tensors = readWeights(weights, &context);
  if (!tensors)
    return tensors.takeError();
  return exportModel(input, output, *tensors, &context);
}

int main(int argc, char **argv) {
  cl::ParseCommandLineOptions(argc, argv, "mpc's translations\n");
  if (action == Action::ExportONNX) {
    // exportModel writes the file itself, and leaves no partial file on
    // failure, so no ToolOutputFile is needed here.
    llvm::Error error = exportONNX();
    return error ? fail(std::move(error)) : 0;
  }
  std::error_code error;
  llvm::ToolOutputFile file(output, error, llvm::sys::fs::OF_None);
  if (error)
    return fail(makeError(ErrorKind::IO, output + ": " + error.message()));
  if (action == Action::ListOps || action == Action::ListRepairs) {
    if (action == Action::ListOps)
      printSupportedOps(file.os());
    else
      printRepairs(file.os());
    file.keep();
    return 0;
  }
  if (llvm::Error error = importONNX(file.os()))
    return fail(std::move(error));
  file.keep();
  return 0;
}
