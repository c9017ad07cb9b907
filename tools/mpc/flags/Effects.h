// Refuses flags that have no effect, with the reason. A user who gives a flag
// expects an effect.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_EFFECTS_H
#define MPC_TOOLS_MPC_FLAGS_EFFECTS_H

#include "tools/mpc/flags/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace mpc::tools {

class Configuration;

/// Throws CLI::ValidationError if a flag has no effect because of the command's
/// other flags, or if `-` is given for a file that cannot be stdin or stdout.
void checkEffects(const CLI::App &command, const Configuration &configuration);

/// Returns an error if a training flag is given but nothing is trained, or if
/// an optimizer flag is given but the model has an optimizer. `addsOptimizer`
/// is true if the flags choose the optimizer.
llvm::Error checkTrainingFlags(const CompileOptions &options,
                               mlir::ModuleOp module, bool addsOptimizer);

/// Chooses the optimizer that PyTorch would use: sgd becomes momentum if
/// --momentum is given. rmsprop has no momentum unless --momentum is given.
void chooseOptimizer(const CompileOptions &options, Recipe &recipe);

/// True if `optimizer` has the setting `key`, like "beta1". Also true for
/// keys of settings that all optimizers have.
bool hasSetting(llvm::StringRef optimizer, llvm::StringRef key);

/// Returns an error if a flag for GPUs is given but the target is a CPU.
llvm::Error checkTargetFlags(const CompileOptions &options);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_EFFECTS_H
