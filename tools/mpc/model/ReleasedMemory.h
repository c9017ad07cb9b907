// Returns unneeded memory of the process to the system.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_RELEASEDMEMORY_H
#define MPC_TOOLS_MPC_MODEL_RELEASEDMEMORY_H

namespace mpc::tools {

/// Returns free memory to the system, and drops the pages with code and
/// constants of the program and its libraries: some 90 MiB after compiling a
/// model. If a dropped page is needed again, the system reads it from the file.
void releaseUnusedMemory();

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_RELEASEDMEMORY_H
