// Describes this build of mpc and the libraries and the CPU that it uses.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_COMMANDS_VERSION_H
#define MPC_TOOLS_MPC_COMMANDS_VERSION_H

#include <string>

namespace mpc::tools {

/// The git revision that mpc was built from: "7090f392a1b2", with "-dirty" if
/// files were changed; "unknown" if the sources were no repository.
extern const char kRevision[];

/// Returns the version of the LLVM in use: "22.1.0".
std::string llvmVersion();

/// Returns the output of `mpc --version`. The first line is "mpc " and the
/// version, and does not change with the machine.
std::string describeVersion();

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_VERSION_H
