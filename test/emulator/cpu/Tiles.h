// The instructions of AMX: tiles of up to 16 rows of 64 bytes, a product of two
// of them in bfloat16 or int8.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CPU_TILES_H
#define MPC_TEST_EMULATOR_CPU_TILES_H

#include "Instruction.h"

namespace mpc::emulator {

/// Does what `instruction` does to the tiles of this thread and to memory.
/// False where it is none of AMX, or one that a CPU would refuse: a palette
/// that does not exist, tiles whose rows do not match.
bool runTileInstruction(const Instruction &instruction);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CPU_TILES_H
