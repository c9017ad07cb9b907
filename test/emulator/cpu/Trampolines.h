// Runs an instruction's emulation without a signal after the first time. A
// signal costs microseconds, a jump a few hundred nanoseconds.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CPU_TRAMPOLINES_H
#define MPC_TEST_EMULATOR_CPU_TRAMPOLINES_H

#include "Instruction.h"

namespace mpc::emulator {

/// Emulates an instruction, or ends the program.
using Emulation = void (*)(const Instruction &instruction,
                           SavedRegisters &registers);

/// Call once, before the first `replaceByJump`.
void prepareTrampolines(Emulation emulation);

/// Replaces the instruction at `address` by a jump to code that saves all
/// registers, calls the emulation and continues behind it. Other threads may
/// run the instruction meanwhile. Does nothing if the page is not writable, no
/// memory is near enough for a jump, or another thread is replacing the
/// instruction.
void replaceByJump(const uint8_t *address, const Instruction &instruction);

/// The longest instruction of x86-64, and a byte.
using InstructionBytes = std::array<uint8_t, 16>;

/// Copies the instruction at `address` atomically with respect to replacements.
/// False if it is being replaced: the thread then tries again.
bool copyInstruction(const uint8_t *address, InstructionBytes &bytes);

/// True if `address` has such a jump, or gets one: a thread that a signal
/// stopped there then tries again.
bool isReplaced(const uint8_t *address);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CPU_TRAMPOLINES_H
