// Prints completion scripts for bash and zsh.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_COMPLETION_H
#define MPC_TOOLS_MPC_FLAGS_COMPLETION_H

#include "llvm/Support/raw_ostream.h"

namespace CLI {
class App;
} // namespace CLI

namespace mpc::tools {

/// Print a shell script that completes commands, flags, file names, and values
/// from a list.
void printBashCompletion(const CLI::App &program, llvm::raw_ostream &os);
void printZshCompletion(const CLI::App &program, llvm::raw_ostream &os);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_COMPLETION_H
