// Runs the blocks of a launched kernel.
//
// A warp runs in lockstep: the lanes at the lowest address go first, so that
// diverged lanes meet again behind the branch. At a warp-level operation they
// wait for all lanes that it names. Warps of a block run one after the other
// from barrier to barrier. Blocks run on all cores and share only global
// memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_EXECUTOR_H
#define MPC_TEST_EMULATOR_PTX_EXECUTOR_H

#include "test/emulator/ptx/Warp.h"

#include <optional>

namespace mpc::emulator::ptx {

/// Runs all blocks. Returns the fault of the lowest block that had one. The
/// message names kernel, block, thread and line.
std::optional<KernelFault> execute(const Launch &launch);

/// Instructions executed by this process, counted per thread.
uint64_t executedInstructions();

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_EXECUTOR_H
