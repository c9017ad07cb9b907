// Every stage and every pass in order. The one place that knows the order.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PIPELINE_H
#define MPC_PASSES_PIPELINE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// The stages of the path from a model to an artifact, by the names that
/// folders, `--emit=` values and test folders carry.
enum class Stage {
  Import,
  Recognize,
  Differentiate,
  Precision,
  Fusion,
  Plan,
  Codegen
};

/// The `--emit=` value of a stage, in path order, with a sentence for help.
struct StageInfo {
  Stage stage;
  llvm::StringLiteral name;
  llvm::StringLiteral summary;
};
llvm::ArrayRef<StageInfo> getStages();

/// What Recognition recognises, one name a pass.
llvm::ArrayRef<llvm::StringLiteral> getRecognizedOps();

/// Loss, optimizer and options of training. Without `losses` a forward model is
/// compiled for inference alone.
struct RecipeOptions {
  /// Added up: each a name of passes/Differentiation/LossSpec.h with an
  /// optional @OUTPUT, or output:NAME, with an optional FACTOR* in front.
  std::vector<std::string> losses;
  /// mean or sum; absent: mean.
  std::optional<std::string> reduction;
  /// The label that counts nowhere.
  std::optional<int64_t> ignoreIndex;
  std::optional<double> labelSmoothing;
  /// One of each class, or none.
  std::vector<double> classWeights;
  /// Factors of positive targets: one for all, one of each class, or none.
  std::vector<double> posWeight;
  /// Whether steps say which labels they got right.
  bool trainAccuracy = false;
  /// sgd, momentum, nesterov, adam, adamw, adagrad, rmsprop or lamb.
  std::string optimizer = "sgd";
  /// ARRAY for all losses, or OUTPUT=ARRAY; see findTarget.
  std::vector<std::string> targetArrays;
  /// The shapes of one sample's labels by array, where the data says them.
  std::map<std::string, std::vector<int64_t>> labelShapes;
  double momentum = 0.9, beta1 = 0.9, beta2 = 0.999, alpha = 0.99;
  bool centered = false;
  /// Absent: the optimizer's default in PyTorch.
  std::optional<double> epsilon, weightDecay;
  int64_t accumulateGradBatches = 1;
  /// mean or sum; empty: mean for forward models, sum for ORT artifacts.
  std::string accumulateReduction;
  std::optional<double> gradientClipVal;
  /// Decay of the averages of the parameters; absent: there are none.
  std::optional<double> ema;
  bool asExported = false;
  /// auto, unbiased or population.
  std::string runningVariance = "auto";
  std::vector<std::string> train, freeze;
  /// Parameters without weight decay, and with another learning rate, as
  /// `mpc-add-optimizer` takes them.
  std::vector<std::string> noDecay, lrScale;
};

/// How precision is decided.
struct PrecisionOptions {
  /// 32-true, 16-mixed, bf16-mixed or 64-true.
  std::string mode = "32-true";
  std::string policyFile;
  std::vector<std::string> keepFp32, forceLow;
  /// dynamic, none or a number; empty: dynamic for 16-mixed, none otherwise.
  std::string lossScale;
};

struct PipelineOptions {
  /// What Recognition leaves spelled out: names of getRecognizedOps, or all.
  std::vector<std::string> unrecognized;
  RecipeOptions recipe;
  PrecisionOptions precision;
  /// A name that TargetInfo knows.
  std::string target = "native";
  /// Who does contractions that both can do: table, library (also relu, where
  /// NaN becomes 0) or generated; bare is the table, with no library doing what
  /// follows a contraction.
  std::string contractions = "table";
  /// Whether a GPU may round operands of f32 contractions to tf32.
  bool tf32 = false;
  /// Whether kernels compute again what would cost more to keep in memory.
  bool recompute = true;
  /// Whether only the model's evaluation is wanted, to the bits that it has
  /// beside training.
  bool evaluationAlone = false;
};

/// Adds the passes of every stage after `done` up to and including `last`. The
/// module given to them is what `done` leaves; of Import, what frontends
/// produce.
void buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &options,
                   Stage last = Stage::Codegen, Stage done = Stage::Import);

/// Runs the passes of `stage` on `module`, which is what the stage before it
/// leaves, and checks what it leaves itself. What a user asks for can be what
/// does not fit, such as a loss of labels of another shape: up to
/// Differentiate, and in builds with assertions (`tools/build --sanitize`,
/// Debug) everywhere, the module is checked after every pass. Checks were
/// 40 to 50 % of compiling a deep model (docs/measured/cpu.md).
mlir::LogicalResult runStage(mlir::ModuleOp module,
                             const PipelineOptions &options, Stage stage);

/// Registers all passes of all stages by name, for mpc-opt.
void registerAllPasses();

} // namespace mpc

#endif // MPC_PASSES_PIPELINE_H
