// Prints the first screen of mpc-opt: the purpose, and mpc's own passes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_OPT_HELP_H
#define MPC_TOOLS_MPC_OPT_HELP_H

#include "llvm/ADT/ArrayRef.h"

namespace mpc::tools {

/// Prints help if the arguments ask for it, and returns the exit code: 0, or 2
/// if they name an unknown pass. nullopt if they do not ask for help. The
/// passes must be registered.
std::optional<int> printHelp(llvm::ArrayRef<const char *> arguments);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_OPT_HELP_H
