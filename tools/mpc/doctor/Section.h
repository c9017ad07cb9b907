// The sections of the page of `mpc doctor`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_DOCTOR_SECTION_H
#define MPC_TOOLS_MPC_DOCTOR_SECTION_H

#include "runtime/Session.h"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace mpc::tools {

/// A section: a table for people, and the facts for programs. Absence and
/// faults are facts too.
struct Section {
  std::string title;                                     ///< "limits"
  std::vector<std::pair<std::string, std::string>> rows; ///< name and text
  nlohmann::json facts;
};

/// Describes the CPU, by what generated code and libraries may use, and the
/// GPUs.
Section describeDevices();

/// Describes linked libraries, and libraries that mpc loads on demand.
Section describeLibraries();

/// Describes the place of the process among the ranks of a launcher, and the
/// device and the threads of the rank in `mpc train`. `ranks` is the value of
/// --ranks, 0 if it is not given. A variable with an impossible value gives a
/// row "error".
Section describeRanks(int ranks, runtime::SessionOptions session);

/// Describes the kernel cache in the folder of --kernel-cache, without creating
/// the folder.
Section describeCaches(const std::string &kernelCache);

/// Describes memory, resource limits and folders for temporary files.
Section describeLimits();

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_DOCTOR_SECTION_H
