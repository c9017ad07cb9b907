// From a model to a compiled module or an artifact. Everything that goes wrong
// is printed, and becomes an exit code.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_DRIVER_H
#define MPC_TOOLS_MPC_MODEL_DRIVER_H

#include "compiler/Artifact/Code.h"
#include "compiler/Artifact/DataSection.h"
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

/// What a loss over classes says of its labels.
struct LabelFacts {
  std::string input;
  std::optional<int64_t> classes, ignoreIndex;

  bool hasRangeOf(const LabelFacts &other) const {
    return classes == other.classes && ignoreIndex == other.ignoreIndex;
  }
};

/// The parts of a .mpc file.
struct CompiledArtifact {
  /// Writes the file.
  llvm::Error write(llvm::raw_ostream &out) const;

  std::optional<TargetInfo> target;
  std::string kernels, plan, cubin;
  DataSection data;
};

/// What becomes of BatchNormalization's running statistics in training.
struct NormalizationFacts {
  /// Layers that update them, and that use and keep them.
  int64_t updated = 0, kept = 0;
  bool isUnbiased = false; ///< of those that update them
};

/// How long a compilation took, stage by stage, in the order of the path.
struct CompileTimes {
  void print(llvm::raw_ostream &os) const;

  std::vector<std::pair<std::string, double>> seconds;
  KernelCounts kernels;
};

/// One compilation with the context it happens in.
class Driver {
public:
  Driver();

  /// Reads the model at `path`, which `compile` then does not read again.
  llvm::Error readModel(llvm::StringRef path);

  /// Calls `check` once it is known what the model takes and trains, which is
  /// long before it is compiled: the loss, its labels and the gradients are
  /// there, no types are decided. What it returns, unless done, ends the
  /// compilation.
  void checkEarly(
      std::function<ExitCode(const runtime::train::TraineeInfo &)> check) {
    earlyCheck = std::move(check);
  }

  /// Calls `check` once types are decided, which is still before machine code
  /// is made, with what the other check was given, and the decisions in the
  /// recipe.
  void checkDecided(
      std::function<ExitCode(const runtime::train::TraineeInfo &)> check) {
    decidedCheck = std::move(check);
  }

  /// Imports the model, which it reads unless it is read already, and runs all
  /// stages up to `last`. On failure every finding has been printed, one a
  /// line, to `findings`.
  /// `then` is run after them, where what it reports is printed as theirs is.
  ExitCode compile(
      const CompileOptions &options, Stage last,
      llvm::raw_ostream &findings = llvm::errs(),
      llvm::function_ref<mlir::LogicalResult()> then = [] {
        return mlir::success();
      });

  /// Compiles to machine code in one piece, as text or bytes.
  ExitCode compileCode(const CompileOptions &options, CodeFormat format,
                       std::string &code);

  /// Compiles to the parts of a .mpc file. Weights among them are still the
  /// module's: the driver must outlive them.
  ExitCode compileArtifact(const CompileOptions &options,
                           CompiledArtifact &artifact);

  /// A value for a graph input that is known when compiling, should the import
  /// ask for it.
  void offerValue(llvm::StringRef name, const runtime::Tensor &value);

  mlir::ModuleOp getModule() { return *module; }
  bool hasModel() const { return model != nullptr; }
  /// The model that was read. Who takes it gives it another context.
  const onnx_frontend::Model &getModel() const { return *model; }
  std::shared_ptr<onnx_frontend::Model> shareModel() { return model; }
  std::shared_ptr<onnx_frontend::Model> takeModel() { return std::move(model); }
  /// What the Precision stage decided, in one line; empty before it ran.
  llvm::StringRef getPrecisionSummary() const { return precisionSummary; }
  /// Why it is not known where outputs have samples; empty where it is, or was
  /// not asked for.
  llvm::StringRef getSamplesFinding() const { return samplesFinding; }
  const CompileTimes &getCompileTimes() const { return times; }
  mlir::MLIRContext &getContext() { return context; }

private:
  /// Compiles to what `ArtifactParts::kernels` wants.
  ExitCode compileToKernels(const CompileOptions &options,
                            const TargetInfo &target, std::string &kernels);
  llvm::Error import(const CompileOptions &options);
  /// Usage where --batch-axis is of labels that a loss adds.
  llvm::Error checkLabelAxes(const onnx_frontend::ImportOptions &importOptions,
                             const CompileOptions &options) const;
  void findSamples(const onnx_frontend::ImportOptions &options);
  /// Keeps what the Precision stage decided and what stages after it hide.
  void readDecisions();
  ExitCode runEarlyCheck(const CompileOptions &options);
  ExitCode runDecidedCheck(const CompileOptions &options);
  /// What the runtime and `mpc inspect` read of the recipe.
  llvm::json::Object describeRecipe() const;

  CompilerMemory memory;
  mlir::MLIRContext context;
  std::shared_ptr<onnx_frontend::Model> model;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  onnx_frontend::TensorMap offered;
  std::string precisionSummary, decisionDigest, samplesFinding;
  std::function<ExitCode(const runtime::train::TraineeInfo &)> earlyCheck,
      decidedCheck;
  /// What `earlyCheck` was given.
  std::optional<runtime::train::TraineeInfo> earlyInfo;
  std::optional<SampleAxes> samples;
  /// Whether the optimizer is that of the flags, and not the model's own.
  bool addsOptimizer = false;
  llvm::SmallVector<LabelFacts> labels;
  /// The recipe with what its files hold.
  RecipeOptions recipe;
  NormalizationFacts normalizations;
  CompileTimes times;
};

/// Says so where a module holds a forward model alone.
void noteForwardOnly(mlir::ModuleOp module);

/// Whether the file at `path` is an artifact rather than a model.
bool isArtifact(const std::string &path);

/// Opens the artifact that `options` name, or compiles the model they name into
/// one with `driver`, which the artifact does not need any longer.
ExitCode loadArtifact(Driver &driver, const CompileOptions &options,
                      std::shared_ptr<const runtime::Artifact> &artifact);

/// A session of an artifact, and what is trained or evaluated in it.
struct OpenSession {
  std::unique_ptr<runtime::Session> session;
  std::unique_ptr<runtime::train::Trainee> trainee;
};

/// Gives every state variable of the artifact its initial value.
ExitCode openSession(std::shared_ptr<const runtime::Artifact> artifact,
                     const runtime::SessionOptions &options,
                     OpenSession &opened);

/// The same tensor on the compiler's side.
onnx_frontend::HostTensor toHostTensor(const runtime::Tensor &tensor,
                                       mlir::MLIRContext *context);
/// The same array, whose type a model has, in the memory it is in where that is
/// aligned.
onnx_frontend::HostTensor toHostTensor(const runtime::train::Array &array,
                                       mlir::MLIRContext *context);

/// Prints "error: MESSAGE" to stderr and returns `code`.
ExitCode reportError(ExitCode code, const llvm::Twine &message);
/// Prints every finding of `error`; returns the exit code they stand for.
ExitCode reportError(llvm::Error error, llvm::raw_ostream &os = llvm::errs());
/// Prints why a file could not be made: IO where the system refused, else an
/// internal error.
ExitCode reportFileError(llvm::Error error, const llvm::Twine &where = "");
/// Prints the status, unless it is success, and returns its code.
ExitCode reportError(const runtime::Status &status);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_DRIVER_H
