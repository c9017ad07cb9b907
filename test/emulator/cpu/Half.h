// The AVX512-FP16 instructions that compilers use for float16.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CPU_HALF_H
#define MPC_TEST_EMULATOR_CPU_HALF_H

#include "Instruction.h"

namespace mpc::emulator {

/// Applies `instruction` to `registers` and to memory. False if it is not a
/// supported AVX512-FP16 instruction, or has embedded rounding.
bool runHalfInstruction(const Instruction &instruction,
                        SavedRegisters &registers);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CPU_HALF_H
