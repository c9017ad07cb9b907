// Decides which artifacts may run unasked: artifacts are programs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_TRUSTEDFILE_H
#define MPC_TOOLS_MPC_MODEL_TRUSTEDFILE_H

#include "llvm/Support/Error.h"

#include <string>

namespace mpc::tools {

/// Opens an artifact whose code is to run; returns the file descriptor. Usage
/// unless the name ends in .mpc, this user or root owns the file, and nobody
/// else may write to it. `isTrusted` skips these checks.
llvm::Expected<int> openArtifact(const std::string &path, bool isTrusted);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_TRUSTEDFILE_H
