// The flags of losses: whether each has an effect, and the files they name.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_LOSSFLAGS_H
#define MPC_TOOLS_MPC_FLAGS_LOSSFLAGS_H

#include "runtime/train/trainee/Trainee.h"
#include "tools/mpc/flags/Options.h"

#include "llvm/Support/JSON.h"

namespace mpc::tools {

/// PyTorch's default of ignore_index.
inline constexpr int64_t kPyTorchIgnoreIndex = -100;

/// Usage, reported, where the loss is not known or a flag of losses has no
/// effect on the one that is named.
ExitCode checkLossFlags(const CompileOptions &options);

/// A loss for a model whose forward function is that: its only number where it
/// computes one, "--loss output:loss", else "--loss softmax_cross_entropy".
std::string suggestLoss(const runtime::train::FunctionPorts &forward);

/// Reads the files of `options.lossFiles` into `recipe`. Done, or a reported
/// error: InvalidInput with the file and the element that is wrong.
ExitCode readLossFiles(const CompileOptions &options, RecipeOptions &recipe);

/// The files among them.
std::vector<std::string> lossFilesOf(const CompileOptions &options);

/// Adds those flags that were given to the recipe that an artifact carries.
void addLossFlags(llvm::json::Object &object, const RecipeOptions &recipe);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_LOSSFLAGS_H
