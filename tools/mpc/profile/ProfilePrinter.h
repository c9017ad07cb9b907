// Prints a profile as text and as JSON.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PROFILE_PROFILEPRINTER_H
#define MPC_TOOLS_MPC_PROFILE_PROFILEPRINTER_H

#include "tools/mpc/profile/Profile.h"

#include "llvm/Support/raw_ostream.h"

namespace mpc::tools {

/// Prints the profile as tables: the kernels and nodes that take the most time
/// or, if `isWhole`, all of them.
void printProfile(llvm::raw_ostream &os, const Profile &profile, bool isWhole);

/// Returns the profile as one JSON object (docs/profiling.md). Times are
/// seconds.
nlohmann::json toJSON(const Profile &profile);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PROFILE_PROFILEPRINTER_H
