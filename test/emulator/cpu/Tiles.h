// AMX instructions: tiles of up to 16 rows of 64 bytes, and products of two
// tiles in bfloat16 or int8.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CPU_TILES_H
#define MPC_TEST_EMULATOR_CPU_TILES_H

#include "Instruction.h"

namespace mpc::emulator {

/// Applies `instruction` to this thread's tiles and to memory. False if it is
/// not an AMX instruction, or one that a CPU would refuse: an unknown palette,
/// or tiles whose rows do not match.
bool runTileInstruction(const Instruction &instruction);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CPU_TILES_H
