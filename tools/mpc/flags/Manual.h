// Prints the manual pages of the commands.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_MANUAL_H
#define MPC_TOOLS_MPC_FLAGS_MANUAL_H

#include "llvm/Support/raw_ostream.h"

namespace CLI {
class App;
} // namespace CLI

namespace mpc::tools {

/// Prints the manual page of `command`, or of the program if null, with the
/// macros of man(7).
void printManual(const CLI::App &program, const CLI::App *command,
                 llvm::raw_ostream &os);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_MANUAL_H
