// Compiles a model to a module or an artifact for the commands. Prints every
// error and returns an exit code.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_DRIVER_H
#define MPC_TOOLS_MPC_MODEL_DRIVER_H

#include "compiler/Artifact/Code.h"
#include "compiler/Artifact/DataSection.h"
#include "compiler/Artifact/NodesToJSON.h"
#include "compiler/Dialect/MPC/Facts/Adapters.h"
#include "compiler/Dialect/MPC/Facts/InputSizes.h"
#include "compiler/Support/ExitCode.h"
#include "frontends/ONNX/Import.h"
#include "runtime/Artifact.h"
#include "runtime/Session.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/trainee/Trainee.h"
#include "tools/mpc/flags/Options.h"
#include "tools/mpc/model/CompileTimes.h"
#include "tools/mpc/model/OutOfMemory.h"
#include "tools/mpc/model/SampleAxes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/JSON.h"

namespace mpc {
class DecisionSummary;
} // namespace mpc

namespace mpc::tools {

/// The labels that are valid for a loss over classes: the input with the
/// labels, the number of classes, and the label that the loss ignores.
struct LabelFacts {
  std::string input;
  std::optional<int64_t> classes, ignoreIndex;

  bool hasRangeOf(const LabelFacts &other) const {
    return classes == other.classes && ignoreIndex == other.ignoreIndex;
  }
};

/// The contents of a .mpc file, before they are written.
struct CompiledArtifact {
  /// Writes the contents as one .mpc file.
  llvm::Error write(llvm::raw_ostream &out) const;

  std::optional<TargetInfo> target;
  std::string kernels, plan, cubin, nodes;
  DataSection data;
};

/// Numbers of BatchNormalization layers by what training does with their
/// running statistics.
struct NormalizationFacts {
  /// `updated` layers update the statistics. `kept` layers normalise by the
  /// statistics and do not change them.
  int64_t updated = 0, kept = 0;
  bool isUnbiased = false; ///< true if a layer stores unbiased variance
};

/// Compiles one model. Owns the MLIR context, the model and the module.
class Driver {
public:
  Driver();

  /// Reads the model at `path`. Makes all repairs except `noRepair`. `compile`
  /// then uses this model.
  llvm::Error readModel(llvm::StringRef path,
                        llvm::ArrayRef<std::string> noRepair);
  llvm::Error readModel(const ModelOptions &options) {
    return readModel(options.model, options.noRepair);
  }

  /// Prints the repaired model as ONNX text. Leaves out the values of tensors
  /// of more than `mostElements` elements.
  ExitCode printRepaired(const ModelOptions &options, int64_t mostElements,
                         llvm::raw_ostream &os);

  /// Registers a check to call during `compile` once inputs, labels and trained
  /// parameters are known. The loss and the gradients exist then, but types are
  /// not decided, and most of the time of compilation is still to come. If the
  /// check does not return Done, the compilation ends.
  void checkEarly(
      std::function<ExitCode(const runtime::train::TraineeInfo &)> check) {
    earlyCheck = std::move(check);
  }

  /// Registers a check to call during `compile` once types are decided, before
  /// machine code is generated. The argument is the description from the early
  /// check, with the decisions added to the recipe.
  void checkDecided(
      std::function<ExitCode(const runtime::train::TraineeInfo &)> check) {
    decidedCheck = std::move(check);
  }

  /// Imports the model and runs all stages up to `last`. Then calls `then`.
  /// Reads the model unless `readModel` has. On failure, all errors have been
  /// printed to `findings`, one per line, also those of `then`.
  ExitCode compile(
      const CompileOptions &options, Stage last,
      llvm::raw_ostream &findings = llvm::errs(),
      llvm::function_ref<mlir::LogicalResult()> then = [] {
        return mlir::success();
      });

  /// Compiles the model and returns the code of all kernels in `format`, as
  /// text or bytes, in `code`.
  ExitCode compileCode(const CompileOptions &options, CodeFormat format,
                       std::string &code);

  /// Compiles the model to the contents of a .mpc file. Weights in `artifact`
  /// point into the module, so the driver must live longer.
  ExitCode compileArtifact(const CompileOptions &options,
                           CompiledArtifact &artifact);

  /// Offers the value of an input to the importer, which compiles the value in
  /// as a constant if a shape depends on it.
  void offerValue(llvm::StringRef name, const runtime::Tensor &value);

  /// Returns the names of the float32 inputs that meet low-precision values, so
  /// that their size in the data affects decisions. Empty unless the mode is
  /// mixed. Call from the early check.
  std::vector<std::string> listMetInputs(const CompileOptions &options);
  /// Gives the Precision stage the size of an input's values in the data.
  void setInputSize(llvm::StringRef name, InputSize size) {
    mpc::setInputSize(*module, name, size);
  }

  mlir::ModuleOp getModule() { return *module; }
  bool hasModel() const { return model != nullptr; }
  /// Each returns the model that was read. A caller that keeps the model beyond
  /// the driver must give it another MLIR context.
  const onnx_frontend::Model &getModel() const { return *model; }
  std::shared_ptr<onnx_frontend::Model> shareModel() { return model; }
  std::shared_ptr<onnx_frontend::Model> takeModel() { return std::move(model); }
  /// Returns a summary of the precision decisions and casts in one line; empty
  /// before the Fusion stage.
  llvm::StringRef getPrecisionSummary() const { return precisionSummary; }
  /// Returns the reason why the sample axes of the outputs are unknown; empty
  /// if they are known, or were not requested.
  llvm::StringRef getSamplesFinding() const { return samplesFinding; }
  const CompileTimes &getCompileTimes() const { return times; }
  mlir::MLIRContext &getContext() { return context; }

private:
  /// Compiles the model to the text of kernels that an artifact holds.
  ExitCode compileToKernels(const CompileOptions &options,
                            const TargetInfo &target, std::string &kernels);
  llvm::Error import(const CompileOptions &options);
  /// Returns a usage error if --batch-axis names labels that a loss of mpc
  /// reads.
  llvm::Error checkLabelAxes(const onnx_frontend::ImportOptions &importOptions,
                             const CompileOptions &options) const;
  void findSamples(const onnx_frontend::ImportOptions &options);
  /// Reads the precision decisions from the module, and other facts that later
  /// stages remove. Returns the summary of the decisions.
  DecisionSummary readDecisions();
  ExitCode runEarlyCheck(const CompileOptions &options);
  ExitCode runDecidedCheck(const CompileOptions &options);
  /// Returns the recipe that the artifact records, for the runtime and for `mpc
  /// inspect`.
  llvm::json::Object describeRecipe() const;

  CompilerMemory memory;
  mlir::MLIRContext context;
  std::shared_ptr<onnx_frontend::Model> model;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  onnx_frontend::TensorMap offered;
  std::string precisionSummary, decisionDigest, samplesFinding;
  std::function<ExitCode(const runtime::train::TraineeInfo &)> earlyCheck,
      decidedCheck;
  /// The description of the model that `earlyCheck` gets.
  std::optional<runtime::train::TraineeInfo> earlyInfo;
  std::optional<SampleAxes> samples;
  /// True if the flags choose the optimizer; false if the model has its own.
  bool addsOptimizer = false;
  llvm::SmallVector<LabelFacts> labels;
  /// The training recipe, with the contents of files that flags name.
  Recipe recipe;
  NormalizationFacts normalizations;
  /// The training phases of nodes, which stages after Precision remove.
  NodePhases phases;
  llvm::SmallVector<Adapter> adapters;
  CompileTimes times;
};

/// Prints a note if the module has only a forward function, so that nothing is
/// trained.
void noteForwardOnly(mlir::ModuleOp module);

/// True if the file at `path` is an artifact rather than a model.
bool isArtifact(const std::string &path);

/// If `options` name an artifact, opens it. Else compiles the model with
/// `driver`, and opens the result. The artifact does not depend on `driver`
/// afterwards.
ExitCode loadArtifact(Driver &driver, const CompileOptions &options,
                      std::shared_ptr<const runtime::Artifact> &artifact);

/// A session of an artifact, and in the session a trainee, which trains or
/// evaluates.
struct OpenSession {
  std::unique_ptr<runtime::Session> session;
  std::unique_ptr<runtime::train::Trainee> trainee;
};

/// Opens a session of the artifact and sets every state variable to its initial
/// value.
ExitCode openSession(std::shared_ptr<const runtime::Artifact> artifact,
                     const runtime::SessionOptions &options,
                     OpenSession &opened);

/// Copies a tensor of the runtime to a tensor that the compiler reads.
onnx_frontend::HostTensor toHostTensor(const runtime::Tensor &tensor,
                                       mlir::MLIRContext *context);
/// Converts an array to a tensor that the compiler reads; the element type must
/// exist in models. Shares the array's memory if aligned, but copies booleans.
onnx_frontend::HostTensor toHostTensor(const runtime::train::Array &array,
                                       mlir::MLIRContext *context);

/// Prints "error: MESSAGE" to stderr and returns `code`.
ExitCode reportError(ExitCode code, const llvm::Twine &message);
/// Prints every message of `error` and returns the exit code.
ExitCode reportError(llvm::Error error, llvm::raw_ostream &os = llvm::errs());
/// Prints why a file could not be written. Returns IO if the system gave the
/// error, else Internal.
ExitCode reportFileError(llvm::Error error, const llvm::Twine &where = "");
/// Prints the message of `status` unless it is success, and returns the code.
ExitCode reportError(const runtime::Status &status);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_DRIVER_H
