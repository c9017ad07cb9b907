// What a process does not need any longer.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_RELEASEDMEMORY_H
#define MPC_TOOLS_MPC_MODEL_RELEASEDMEMORY_H

namespace mpc::tools {

/// Gives the system memory back that is free, and lets go of the pages of code
/// and constants of the program and its libraries: of what compiled a model,
/// some 90 MiB. Those that are used again come from the system's copy of the
/// file.
void releaseUnusedMemory();

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_RELEASEDMEMORY_H
