// Records in an artifact's recipe the flags that the model was compiled with.
// If the entries of two artifacts of one model are equal, both compute the same
// bits.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_COMPILEFLAGS_H
#define MPC_TOOLS_MPC_FLAGS_COMPILEFLAGS_H

#include "tools/mpc/flags/Options.h"

#include "llvm/Support/JSON.h"

namespace mpc::tools {

/// Adds the compile flags to `recipe`, except flags already recorded in another
/// form. Defaults are written out, so giving a default as a flag makes no
/// difference. A file is recorded by a digest of the contents.
///
/// Not recorded: the target, since checkpoints may move to another machine;
/// --train and --freeze, since the list of state shows which parameters are
/// trained; and --shape, since the list of inputs has the shapes.
///
/// `decisions` is a digest of the Precision stage's decisions. `addsOptimizer`
/// is true if the flags choose the optimizer, false if the model has its own.
void addCompileFlags(llvm::json::Object &recipe, const CompileOptions &options,
                     llvm::StringRef decisions, bool addsOptimizer);

/// Adds the optimizer and the settings to `object`, with defaults written out.
void addOptimizerFlags(llvm::json::Object &object, Recipe recipe);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_COMPILEFLAGS_H
