// The instructions of AVX512-FP16 that compilers choose for float16.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CPU_HALF_H
#define MPC_TEST_EMULATOR_CPU_HALF_H

#include "Instruction.h"

namespace mpc::emulator {

/// Does what `instruction` does to `registers` and to memory. False where it is
/// none of AVX512-FP16, or one that is not known here, or says how to round.
bool runHalfInstruction(const Instruction &instruction,
                        SavedRegisters &registers);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CPU_HALF_H
