// Prints the help of mpc-opt: the purpose, and mpc's own passes by stage.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_OPT_HELP_H
#define MPC_TOOLS_MPC_OPT_HELP_H

#include "llvm/ADT/ArrayRef.h"

namespace mpc::tools {

/// Prints help if the arguments begin with --help. Returns the exit code: 0, or
/// 2 if an argument after --help names an unknown pass. nullopt if the
/// arguments do not ask for help. Register all passes before the call.
std::optional<int> printHelp(llvm::ArrayRef<const char *> arguments);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_OPT_HELP_H
