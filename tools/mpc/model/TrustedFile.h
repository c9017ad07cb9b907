// Decides which artifacts mpc may run without --trust. An artifact is a
// program, so a hostile artifact could do anything.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_TRUSTEDFILE_H
#define MPC_TOOLS_MPC_MODEL_TRUSTEDFILE_H

#include "llvm/Support/Error.h"

#include <string>

namespace mpc::tools {

/// Opens an artifact to run its code, and returns the file descriptor. A usage
/// error unless the name ends in .mpc, the current user or root owns the file,
/// and nobody else may write it. If `isTrusted`, skips these checks.
llvm::Expected<int> openArtifact(const std::string &path, bool isTrusted);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_TRUSTEDFILE_H
