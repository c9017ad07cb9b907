// Checks the flags of losses, and reads the files that they name.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_LOSSFLAGS_H
#define MPC_TOOLS_MPC_FLAGS_LOSSFLAGS_H

#include "runtime/train/trainee/Trainee.h"
#include "tools/mpc/flags/Options.h"

#include "llvm/Support/JSON.h"

namespace mpc::tools {

/// The label that PyTorch's losses ignore by default.
inline constexpr int64_t kPyTorchIgnoreIndex = -100;

/// Prints an error and returns Usage if a flag has no effect on the given
/// losses.
ExitCode checkLossFlags(const CompileOptions &options);

/// Suggests a loss for a model whose forward function is `forward`: "--loss
/// output:NAME" if NAME is the only output with a single number, else "--loss
/// softmax_cross_entropy".
std::string suggestLoss(const runtime::train::FunctionPorts &forward);

/// Reads the files that `options.lossFiles` names into `recipe`. Returns Done,
/// or InvalidInput after printing the file and the invalid element.
ExitCode readLossFiles(const CompileOptions &options, Recipe &recipe);

/// True if `weights`, the value of --class-weights, asks for weights from the
/// counts of labels: the word "balanced", unless there is such a file.
bool isBalanced(const std::string &weights);

/// Returns the values in `options.lossFiles` that are files; other values are
/// numbers.
std::vector<std::string> lossFilesOf(const CompileOptions &options);

/// Adds the loss flags that were given to `object`, the recipe of an artifact.
void addLossFlags(llvm::json::Object &object, const Recipe &recipe);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_LOSSFLAGS_H
