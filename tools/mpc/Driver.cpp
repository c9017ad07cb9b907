// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/Driver.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "frontends/ONNX/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::tools;

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

ExitCode mpc::tools::reportError(ExitCode code, const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return code;
}

ExitCode mpc::tools::reportError(llvm::Error error) {
  onnx_frontend::Findings findings =
      onnx_frontend::takeFindings(std::move(error));
  for (const std::string &message : findings.messages)
    llvm::errs() << "error: " << message << "\n";
  return static_cast<ExitCode>(findings.exitCode);
}

namespace {
/// Prints diagnostics as `error: model.onnx: node 'conv1': message` and keeps
/// the exit code of the first error.
class DiagnosticPrinter : public ScopedDiagnosticHandler {
public:
  DiagnosticPrinter(MLIRContext *context, StringRef model)
      : ScopedDiagnosticHandler(context), model(model) {
    setHandler([this](Diagnostic &diagnostic) {
      print(diagnostic);
      return success();
    });
  }

  ExitCode getExitCode() const { return exitCode; }

private:
  void print(Diagnostic &diagnostic) {
    static constexpr llvm::StringLiteral severities[] = {"note", "warning",
                                                         "error", "remark"};
    DiagnosticSeverity severity = diagnostic.getSeverity();
    if (severity == DiagnosticSeverity::Error && exitCode == ExitCode::Done)
      exitCode = mpc::getExitCode(diagnostic);
    llvm::errs() << severities[static_cast<int>(severity)] << ": " << model
                 << ": ";
    if (auto name = diagnostic.getLocation()->findInstanceOf<NameLoc>())
      llvm::errs() << "node '" << name.getName().getValue() << "': ";
    llvm::errs() << diagnostic << "\n";
    for (Diagnostic &note : diagnostic.getNotes())
      print(note);
  }

  StringRef model;
  ExitCode exitCode = ExitCode::Done;
};
} // namespace

//===----------------------------------------------------------------------===//
// Driver
//===----------------------------------------------------------------------===//

Driver::Driver() {
  DialectRegistry registry;
  registry.insert<MPCDialect, amp::AMPDialect, func::FuncDialect>();
  context.appendDialectRegistry(registry);
}

// Parses NAME=32x3x224x224 into `shapes`.
static llvm::Error parseShape(StringRef text,
                              onnx_frontend::ImportOptions &to) {
  auto [name, extents] = text.rsplit('=');
  SmallVector<StringRef> parts;
  extents.split(parts, 'x');
  std::vector<int64_t> shape;
  for (StringRef part : parts) {
    int64_t extent;
    if (name.empty() || part.getAsInteger(10, extent) || extent < 0)
      return onnx_frontend::makeError(
          onnx_frontend::ErrorKind::Usage,
          "--shape " + text + ": expected NAME=SIZExSIZE..., such as x=32x64");
    shape.push_back(extent);
  }
  to.shapes[name.str()] = std::move(shape);
  return llvm::Error::success();
}

ExitCode Driver::import(const CompileOptions &options) {
  onnx_frontend::ImportOptions importOptions;
  for (const std::string &shape : options.model.shapes)
    if (llvm::Error error = parseShape(shape, importOptions))
      return reportError(std::move(error));
  if (options.model.batchSize > 0)
    importOptions.batchSize = options.model.batchSize;
  const RecipeOptions &recipe = options.pipeline.recipe;
  importOptions.trainingMode = !recipe.loss.empty() && !recipe.asExported;
  importOptions.optimizerModel = options.model.optimizerModel;
  for (const std::string &file : options.model.weights) {
    auto weights = onnx_frontend::readWeights(file, &context);
    if (!weights)
      return reportError(weights.takeError());
    for (auto &[name, value] : *weights)
      importOptions.weights[name] = value;
  }
  auto imported =
      onnx_frontend::importModel(options.model.model, importOptions, &context);
  if (!imported)
    return reportError(imported.takeError());
  module = std::move(*imported);
  return ExitCode::Done;
}

ExitCode Driver::compile(const CompileOptions &options, Stage last) {
  if (ExitCode code = import(options); code != ExitCode::Done)
    return code;
  DiagnosticPrinter printer(&context, options.model.model);
  PassManager pm(&context);
  buildPipeline(pm, options.pipeline, last);
  if (succeeded(pm.run(*module)))
    return ExitCode::Done;
  if (printer.getExitCode() == ExitCode::Done)
    return reportError(ExitCode::Internal, "a pass failed without a message");
  return printer.getExitCode();
}
