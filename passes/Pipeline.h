// Lists all stages and passes. Only Pipeline.cpp knows the order of passes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PIPELINE_H
#define MPC_PASSES_PIPELINE_H

#include "compiler/Dialect/AMP/Request.h"
#include "compiler/Dialect/MPC/Recipe/Recipe.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <string>
#include <vector>

namespace mpc {

/// The stages from a model to an artifact. The values of `--emit=`, the folders
/// of passes and the folders of tests have the same names.
enum class Stage {
  Import,
  Recognize,
  Differentiate,
  Precision,
  Fusion,
  Plan,
  Codegen
};

/// A stage with its `--emit=` value and help text. getStages returns all stages
/// in order.
struct StageInfo {
  Stage stage;
  llvm::StringLiteral name;
  llvm::StringLiteral summary;
};
llvm::ArrayRef<StageInfo> getStages();

/// Returns the names of the ops that Recognition finds, as --no-recognize takes
/// them.
llvm::ArrayRef<llvm::StringLiteral> getRecognizedOps();

struct PipelineOptions {
  /// Ops that Recognition shall not find: names of getRecognizedOps, or "all".
  std::vector<std::string> unrecognized;
  Recipe recipe;
  amp::Request precision;
  /// True if the records of precision list, for each flag that flips a
  /// decision, the other ops that follow.
  bool listsFollowers = false;
  /// A precision mode that the user asked for and mpc lacks, such as 16-true;
  /// otherwise empty. The Precision stage reports the mode as an error.
  std::string unsupportedMode;
  /// The name of a target, as in --target.
  std::string target = "native";
  /// Who computes contractions that both a library and mpc can compute:
  /// - table: by tables of measured times;
  /// - library: the library, which also fuses relu and turns NaN into 0;
  /// - generated: mpc's kernels;
  /// - bare: by the tables, but libraries fuse nothing.
  std::string contractions = "table";
  /// Who computes attention:
  /// - auto: the library of a GPU where the library can, else products;
  /// - library: the library; an error where the library cannot;
  /// - products: products and kernels.
  std::string attention = "auto";
  /// True if kernels recompute a value whenever storing the value costs more.
  bool recompute = true;
  /// True if only the evaluation is compiled. The results have the bits of a
  /// module with training.
  bool evaluationAlone = false;
};

/// Adds the passes of every stage after `done`, up to and including `last`, to
/// `pm`. The passes expect the result of stage `done`. For Import, this is the
/// module that a frontend has built.
void buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &options,
                   Stage last = Stage::Codegen, Stage done = Stage::Import);

/// Runs the passes of `stage` on `module`, the result of the previous stage,
/// and verifies the result. Before Differentiate, sets the recipe of the
/// module; before Precision, the request.
///
/// Up to Differentiate, MLIR's verifier runs after every pass, because a user's
/// request may not fit the model: a loss for labels of another shape, for
/// example. In builds with assertions (`tools/build --sanitize`, Debug), the
/// verifier runs after every pass of all stages. Verifying took 40 to 50 % of
/// the time to compile a deep model (docs/measured/cpu.md).
mlir::LogicalResult runStage(mlir::ModuleOp module,
                             const PipelineOptions &options, Stage stage);

/// Registers all passes of all stages by name, for mpc-opt.
void registerAllPasses();

} // namespace mpc

#endif // MPC_PASSES_PIPELINE_H
