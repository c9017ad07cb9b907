// Compiles a model to a module or an artifact. Prints every error and returns
// an exit code.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_DRIVER_H
#define MPC_TOOLS_MPC_MODEL_DRIVER_H

#include "compiler/Artifact/Code.h"
#include "compiler/Artifact/DataSection.h"
#include "compiler/Dialect/MPC/Facts/InputSizes.h"
#include "compiler/Support/ExitCode.h"
#include "frontends/ONNX/Import.h"
#include "passes/KernelCompiler.h"
#include "runtime/Artifact.h"
#include "runtime/Session.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/trainee/Trainee.h"
#include "tools/mpc/flags/Options.h"
#include "tools/mpc/model/OutOfMemory.h"
#include "tools/mpc/model/SampleAxes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/JSON.h"

namespace mpc::tools {

/// The valid labels of a loss over classes.
struct LabelFacts {
  std::string input;
  std::optional<int64_t> classes, ignoreIndex;

  bool hasRangeOf(const LabelFacts &other) const {
    return classes == other.classes && ignoreIndex == other.ignoreIndex;
  }
};

/// The parts of a .mpc file.
struct CompiledArtifact {
  /// Writes the parts as one .mpc file.
  llvm::Error write(llvm::raw_ostream &out) const;

  std::optional<TargetInfo> target;
  std::string kernels, plan, cubin;
  DataSection data;
};

/// How training treats BatchNormalization's running statistics.
struct NormalizationFacts {
  /// The numbers of layers that update the statistics, and of layers that use
  /// and keep the statistics.
  int64_t updated = 0, kept = 0;
  bool isUnbiased = false; ///< true if a layer stores the unbiased variance
};

/// The seconds that each stage of a compilation took, in order.
struct CompileTimes {
  void print(llvm::raw_ostream &os) const;

  std::vector<std::pair<std::string, double>> seconds;
  KernelCounts kernels;
};

/// One compilation with its MLIR context.
class Driver {
public:
  Driver();

  /// Reads the model at `path` without the repairs `noRepair`. `compile` then
  /// does not read the model again.
  llvm::Error readModel(llvm::StringRef path,
                        llvm::ArrayRef<std::string> noRepair);
  llvm::Error readModel(const ModelOptions &options) {
    return readModel(options.model, options.noRepair);
  }

  /// Prints the model as ONNX text after the repairs. Tensors of more than
  /// `mostElements` elements are left out.
  ExitCode printRepaired(const ModelOptions &options, int64_t mostElements,
                         llvm::raw_ostream &os);

  /// Calls `check` once inputs, labels and trained parameters are known: the
  /// loss and the gradients exist, but types are not decided, so most of the
  /// compilation is still to come. Any result but Done ends the compilation.
  void checkEarly(
      std::function<ExitCode(const runtime::train::TraineeInfo &)> check) {
    earlyCheck = std::move(check);
  }

  /// Calls `check` once types are decided, still before machine code is made.
  /// The argument is that of the early check, with the decisions in the recipe.
  void checkDecided(
      std::function<ExitCode(const runtime::train::TraineeInfo &)> check) {
    decidedCheck = std::move(check);
  }

  /// Imports the model and runs all stages up to `last`, then calls `then`.
  /// Reads the model unless `readModel` has. On failure every finding has been
  /// printed to `findings`, one per line, also findings of `then`.
  ExitCode compile(
      const CompileOptions &options, Stage last,
      llvm::raw_ostream &findings = llvm::errs(),
      llvm::function_ref<mlir::LogicalResult()> then = [] {
        return mlir::success();
      });

  /// Compiles to one piece of machine code, as text or bytes.
  ExitCode compileCode(const CompileOptions &options, CodeFormat format,
                       std::string &code);

  /// Compiles to the parts of a .mpc file. Weights in `artifact` still belong
  /// to the module: the driver must outlive them.
  ExitCode compileArtifact(const CompileOptions &options,
                           CompiledArtifact &artifact);

  /// Offers the value of a graph input as a compile-time constant, in case the
  /// import needs the value.
  void offerValue(llvm::StringRef name, const runtime::Tensor &value);

  /// Names the float32 inputs whose size in the data decides types. Empty
  /// unless the mode is mixed. Call from the early check.
  std::vector<std::string> listMetInputs(const CompileOptions &options);
  /// Tells the Precision stage the size of an input in the data.
  void setInputSize(llvm::StringRef name, InputSize size) {
    mpc::setInputSize(*module, name, size);
  }

  mlir::ModuleOp getModule() { return *module; }
  bool hasModel() const { return model != nullptr; }
  /// The model that was read. Whoever takes the model gives it another context.
  const onnx_frontend::Model &getModel() const { return *model; }
  std::shared_ptr<onnx_frontend::Model> shareModel() { return model; }
  std::shared_ptr<onnx_frontend::Model> takeModel() { return std::move(model); }
  /// The decisions of the Precision stage in one line; empty before that stage.
  llvm::StringRef getPrecisionSummary() const { return precisionSummary; }
  /// The reason why the sample axes of the outputs are unknown; empty if they
  /// are known or not requested.
  llvm::StringRef getSamplesFinding() const { return samplesFinding; }
  const CompileTimes &getCompileTimes() const { return times; }
  mlir::MLIRContext &getContext() { return context; }

private:
  /// Compiles to the kernels that `ArtifactParts::kernels` expects.
  ExitCode compileToKernels(const CompileOptions &options,
                            const TargetInfo &target, std::string &kernels);
  llvm::Error import(const CompileOptions &options);
  /// Returns a usage error if --batch-axis names labels that a loss adds.
  llvm::Error checkLabelAxes(const onnx_frontend::ImportOptions &importOptions,
                             const CompileOptions &options) const;
  void findSamples(const onnx_frontend::ImportOptions &options);
  /// Keeps the decisions of the Precision stage and facts that later stages
  /// hide.
  void readDecisions();
  ExitCode runEarlyCheck(const CompileOptions &options);
  ExitCode runDecidedCheck(const CompileOptions &options);
  /// Describes the recipe for the runtime and `mpc inspect`.
  llvm::json::Object describeRecipe() const;

  CompilerMemory memory;
  mlir::MLIRContext context;
  std::shared_ptr<onnx_frontend::Model> model;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  onnx_frontend::TensorMap offered;
  std::string precisionSummary, decisionDigest, samplesFinding;
  std::function<ExitCode(const runtime::train::TraineeInfo &)> earlyCheck,
      decidedCheck;
  /// The argument of `earlyCheck`.
  std::optional<runtime::train::TraineeInfo> earlyInfo;
  std::optional<SampleAxes> samples;
  /// True if the flags choose the optimizer; false if the model has its own.
  bool addsOptimizer = false;
  llvm::SmallVector<LabelFacts> labels;
  /// The recipe, with the contents of the files that flags name.
  Recipe recipe;
  NormalizationFacts normalizations;
  CompileTimes times;
};

/// Prints a note if the module holds only a forward model.
void noteForwardOnly(mlir::ModuleOp module);

/// True if the file at `path` is an artifact rather than a model.
bool isArtifact(const std::string &path);

/// Opens the artifact in `options`, or compiles the model in `options` with
/// `driver`. The artifact does not refer to `driver` afterwards.
ExitCode loadArtifact(Driver &driver, const CompileOptions &options,
                      std::shared_ptr<const runtime::Artifact> &artifact);

/// A session of an artifact, and a trainee for training or evaluation in the
/// session.
struct OpenSession {
  std::unique_ptr<runtime::Session> session;
  std::unique_ptr<runtime::train::Trainee> trainee;
};

/// Opens a session and gives every state variable of the artifact its initial
/// value.
ExitCode openSession(std::shared_ptr<const runtime::Artifact> artifact,
                     const runtime::SessionOptions &options,
                     OpenSession &opened);

/// Copies a tensor of the runtime to a tensor of the compiler.
onnx_frontend::HostTensor toHostTensor(const runtime::Tensor &tensor,
                                       mlir::MLIRContext *context);
/// Converts an array whose type models have to a tensor of the compiler. Shares
/// the array's memory if aligned; copies booleans.
onnx_frontend::HostTensor toHostTensor(const runtime::train::Array &array,
                                       mlir::MLIRContext *context);

/// Prints "error: MESSAGE" to stderr and returns `code`.
ExitCode reportError(ExitCode code, const llvm::Twine &message);
/// Prints every finding of `error`; returns their exit code.
ExitCode reportError(llvm::Error error, llvm::raw_ostream &os = llvm::errs());
/// Prints why a file could not be made. IO if the system refused, else
/// Internal.
ExitCode reportFileError(llvm::Error error, const llvm::Twine &where = "");
/// Prints the status unless it is success; returns its code.
ExitCode reportError(const runtime::Status &status);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_DRIVER_H
