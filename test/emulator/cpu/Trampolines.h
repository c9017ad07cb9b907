// Runs the emulation of an instruction without a signal from its second time
// on: a signal costs microseconds, a jump some hundred nanoseconds.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CPU_TRAMPOLINES_H
#define MPC_TEST_EMULATOR_CPU_TRAMPOLINES_H

#include "Instruction.h"

namespace mpc::emulator {

/// Emulates an instruction, or ends the program.
using Emulation = void (*)(const Instruction &instruction,
                           SavedRegisters &registers);

/// Once, before the first `replaceByJump`.
void prepareTrampolines(Emulation emulation);

/// Replaces the instruction at `address` by a jump to code that saves all
/// registers, calls the emulation and goes on behind it. Other threads may run
/// the instruction meanwhile. Leaves it where its page cannot be written, or no
/// memory is near enough for a jump. Another thread may be at it already: then
/// nothing happens, either.
void replaceByJump(const uint8_t *address, const Instruction &instruction);

/// The longest instruction of x86-64, and a byte.
using InstructionBytes = std::array<uint8_t, 16>;

/// The bytes of the instruction at `address`, all from before or after another
/// thread replaced it. False if it is replaced: the thread just tries again.
bool copyInstruction(const uint8_t *address, InstructionBytes &bytes);

/// True if there is such a jump at `address`, or one is being written: a thread
/// that a signal stopped there just tries again.
bool isReplaced(const uint8_t *address);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CPU_TRAMPOLINES_H
