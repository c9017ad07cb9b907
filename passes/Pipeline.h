// Lists every stage and every pass. No other place knows the order.
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

struct PipelineOptions {
  /// Ops to leave unrecognised: names of getRecognizedOps, or all.
  std::vector<std::string> unrecognized;
  Recipe recipe;
  amp::Request precision;
  /// A mode that mpc lacks, such as 16-true; empty for none. The Precision
  /// stage reports the mode.
  std::string unsupportedMode;
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
/// and verifies the result. Differentiate starts by setting the module's
/// recipe, Precision by setting the module's request. Up to Differentiate, the
/// module is verified after every pass, because a user's request may not fit,
/// such as a loss for labels of another shape. In builds with assertions
/// (`tools/build --sanitize`, Debug) all stages are. Verifying took 40 to 50 %
/// of compiling a deep model (docs/measured/cpu.md).
mlir::LogicalResult runStage(mlir::ModuleOp module,
                             const PipelineOptions &options, Stage stage);

/// Registers all passes of all stages by name, for mpc-opt.
void registerAllPasses();

} // namespace mpc

#endif // MPC_PASSES_PIPELINE_H
