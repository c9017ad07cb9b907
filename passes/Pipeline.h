// Lists every stage and every pass. No other place knows the order.
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

/// The stages from a model to an artifact. Folders, `--emit=` values and test
/// folders have the same names.
enum class Stage {
  Import,
  Recognize,
  Differentiate,
  Precision,
  Fusion,
  Plan,
  Codegen
};

/// The `--emit=` value of a stage with its help text; getStages lists them in
/// order.
struct StageInfo {
  Stage stage;
  llvm::StringLiteral name;
  llvm::StringLiteral summary;
};
llvm::ArrayRef<StageInfo> getStages();

/// Returns the names of the recognised ops, one per pass.
llvm::ArrayRef<llvm::StringLiteral> getRecognizedOps();

/// Loss, optimizer and options of training. Without `losses`, a forward model
/// is compiled for inference only.
struct RecipeOptions {
  /// The losses to add up. Each is a name of passes/Differentiation/LossSpec.h
  /// with an optional @OUTPUT, or output:NAME; an optional FACTOR* comes first.
  std::vector<std::string> losses;
  /// mean or sum; nullopt means mean.
  std::optional<std::string> reduction;
  /// The label that does not count; nullopt if all labels count.
  std::optional<int64_t> ignoreIndex;
  std::optional<double> labelSmoothing;
  /// The weight of each class; empty for none.
  std::vector<double> classWeights;
  /// Factors of positive targets: one for all classes, or one per class; empty
  /// for none.
  std::vector<double> posWeight;
  /// True if steps return which labels they predicted correctly.
  bool trainAccuracy = false;
  /// sgd, momentum, nesterov, adam, adamw, adagrad, rmsprop or lamb.
  std::string optimizer = "sgd";
  /// ARRAY for all losses, or OUTPUT=ARRAY; see findTarget.
  std::vector<std::string> targetArrays;
  /// Shapes of a sample's labels by array, if the data define them.
  std::map<std::string, std::vector<int64_t>> labelShapes;
  double momentum = 0.9, beta1 = 0.9, beta2 = 0.999, alpha = 0.99;
  bool centered = false;
  /// nullopt means the optimizer's default in PyTorch.
  std::optional<double> epsilon, weightDecay;
  int64_t accumulateGradBatches = 1;
  /// mean or sum; empty: mean for forward models, sum for ORT artifacts.
  std::string accumulateReduction;
  std::optional<double> gradientClipVal;
  /// Decay of the averages of the parameters; nullopt for no averages.
  std::optional<double> ema;
  bool asExported = false;
  /// auto, unbiased or population.
  std::string runningVariance = "auto";
  std::vector<std::string> train, freeze;
  /// Parameters without weight decay, and parameters with another learning
  /// rate, in the syntax of `mpc-add-optimizer`.
  std::vector<std::string> noDecay, lrScale;
};

/// The options of the Precision stage.
struct PrecisionOptions {
  /// 32-true, 16-mixed, bf16-mixed or 64-true.
  std::string mode = "32-true";
  std::string policyFile;
  std::vector<std::string> keepFp32, forceLow;
  /// dynamic, none or a number; empty: dynamic for 16-mixed, none otherwise.
  std::string lossScale;
};

struct PipelineOptions {
  /// Ops to leave unrecognised: names of getRecognizedOps, or all.
  std::vector<std::string> unrecognized;
  RecipeOptions recipe;
  PrecisionOptions precision;
  /// A name that TargetInfo knows.
  std::string target = "native";
  /// The choice for contractions that both a library and mpc can do. table: by
  /// measured tables; library: the library, which also fuses relu and turns NaN
  /// into 0; generated: mpc's kernels; bare: the table, but libraries fuse
  /// nothing.
  std::string contractions = "table";
  /// True if a GPU may round operands of f32 contractions to tf32.
  bool tf32 = false;
  /// True if kernels recompute values that would cost more to keep in memory.
  bool recompute = true;
  /// True if only the evaluation is wanted, with the same bits as beside
  /// training.
  bool evaluationAlone = false;
};

/// Adds the passes of every stage after `done`, up to and including `last`.
/// They expect the result of stage `done`; for Import, the module of a
/// frontend.
void buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &options,
                   Stage last = Stage::Codegen, Stage done = Stage::Import);

/// Runs the passes of `stage` on `module`, the result of the previous stage,
/// and verifies the result. Up to Differentiate, the module is verified after
/// every pass, because a user's request may not fit, such as a loss for labels
/// of another shape. In builds with assertions (`tools/build --sanitize`,
/// Debug) all stages are. Verifying took 40 to 50 % of compiling a deep model
/// (docs/measured/cpu.md).
mlir::LogicalResult runStage(mlir::ModuleOp module,
                             const PipelineOptions &options, Stage stage);

/// Registers all passes of all stages by name, for mpc-opt.
void registerAllPasses();

} // namespace mpc

#endif // MPC_PASSES_PIPELINE_H
