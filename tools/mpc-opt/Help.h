// The first screen of mpc-opt: what it is for, and mpc's own passes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_OPT_HELP_H
#define MPC_TOOLS_MPC_OPT_HELP_H

#include "llvm/ADT/ArrayRef.h"

namespace mpc::tools {

/// What to exit with where the arguments ask for help, which is printed: 0, or
/// 2 where they name no pass of which to tell. Nothing where they do not; the
/// passes must be registered.
std::optional<int> printHelp(llvm::ArrayRef<const char *> arguments);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_OPT_HELP_H
