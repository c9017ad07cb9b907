// Checks the flags of losses and reads the named files.
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

/// Reports a Usage error if a flag has no effect on the named losses.
ExitCode checkLossFlags(const CompileOptions &options);

/// Suggests a loss for a model with the forward function `forward`: "--loss
/// output:NAME" if NAME is the only output that is one number, else "--loss
/// softmax_cross_entropy".
std::string suggestLoss(const runtime::train::FunctionPorts &forward);

/// Reads the files of `options.lossFiles` into `recipe`. Done, or a reported
/// error: InvalidInput with the file and the wrong element.
ExitCode readLossFiles(const CompileOptions &options, Recipe &recipe);

/// Lists the files in `options.lossFiles`; other values are numbers.
std::vector<std::string> lossFilesOf(const CompileOptions &options);

/// Adds the given loss flags to the recipe of an artifact.
void addLossFlags(llvm::json::Object &object, const Recipe &recipe);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_LOSSFLAGS_H
