// Artifacts are programs: which of them may be run without being asked.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_TRUSTEDFILE_H
#define MPC_TOOLS_MPC_MODEL_TRUSTEDFILE_H

#include "llvm/Support/Error.h"

#include <string>

namespace mpc::tools {

/// Opens an artifact whose code is to run; the result is its descriptor. Usage
/// unless its name ends in .mpc, this user or root owns it, and nobody else may
/// write to it. All of that is taken for granted where the user trusts it.
llvm::Expected<int> openArtifact(const std::string &path, bool isTrusted);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_TRUSTEDFILE_H
