// Refuses flags that would change nothing, with the reason: users mean what
// they type.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_EFFECTS_H
#define MPC_TOOLS_MPC_FLAGS_EFFECTS_H

#include "tools/mpc/flags/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace mpc::tools {

class Configuration;

/// Throws CLI::ValidationError for flags that have no effect beside the
/// command's other flags, and for `-` as a file that cannot be a stream.
void checkEffects(const CLI::App &command, const Configuration &configuration);

/// Refuses training flags if nothing is trained, and optimizer flags if the
/// model has its own optimizer. `addsOptimizer` is true if the flags choose the
/// optimizer.
llvm::Error checkTrainingFlags(const CompileOptions &options,
                               mlir::ModuleOp module, bool addsOptimizer);

/// Matches PyTorch's defaults: a given --momentum turns sgd into momentum, and
/// rmsprop has no momentum unless --momentum is given.
void chooseOptimizer(const CompileOptions &options, Recipe &recipe);

/// True if an optimizer has the setting `key`, like "beta1". True also for
/// settings that every optimizer has.
bool hasSetting(llvm::StringRef optimizer, llvm::StringRef key);

/// Refuses GPU flags if the target is a CPU.
llvm::Error checkTargetFlags(const CompileOptions &options);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_EFFECTS_H
