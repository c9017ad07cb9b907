// Flags that would change nothing are refused, with the reason: what somebody
// types is meant.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_EFFECTS_H
#define MPC_TOOLS_MPC_FLAGS_EFFECTS_H

#include "tools/mpc/flags/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace mpc::tools {

class Configuration;

/// Refuses flags that have no effect beside the command's others, and `-` for
/// what is no stream: throws CLI::ValidationError.
void checkEffects(const CLI::App &command, const Configuration &configuration);

/// Refuses flags for training where nothing is trained, and those of an
/// optimizer where the model brings its own. `addsOptimizer` says whether the
/// flags choose it.
llvm::Error checkTrainingFlags(const CompileOptions &options,
                               mlir::ModuleOp module, bool addsOptimizer);

/// Makes the optimizer that the flags name PyTorch's: SGD has a momentum where
/// one is given, RMSprop none where none is.
void chooseOptimizer(const CompileOptions &options, RecipeOptions &recipe);

/// Whether an optimizer has the setting `key`, such as "beta1"; of others than
/// those that only some optimizers have it is true.
bool hasSetting(llvm::StringRef optimizer, llvm::StringRef key);

/// Refuses flags of GPUs where code is for a CPU.
llvm::Error checkTargetFlags(const CompileOptions &options);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_EFFECTS_H
