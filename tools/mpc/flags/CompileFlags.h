// Records the flags that a model was compiled with in the artifact's recipe.
// Two artifacts of one model with equal entries compute the same bits.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_COMPILEFLAGS_H
#define MPC_TOOLS_MPC_FLAGS_COMPILEFLAGS_H

#include "tools/mpc/flags/Options.h"

#include "llvm/Support/JSON.h"

namespace mpc::tools {

/// Adds every flag that the recipe does not have in another form. Defaults are
/// spelled out, so that giving a default makes no difference. Files count by
/// their contents. Left out are the target, since checkpoints move between
/// machines; --train and --freeze, which show in the state's roles; and
/// --shape, which shows in the inputs' shapes. `decisions` is the digest of
/// what the Precision stage decided. `addsOptimizer` is true if the flags
/// choose the optimizer.
void addCompileFlags(llvm::json::Object &recipe, const CompileOptions &options,
                     llvm::StringRef decisions, bool addsOptimizer);

/// Adds the optimizer and its settings, with defaults spelled out.
void addOptimizerFlags(llvm::json::Object &object, Recipe recipe);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_COMPILEFLAGS_H
