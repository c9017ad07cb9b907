// A decoded instruction with a VEX or EVEX prefix.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CPU_INSTRUCTION_H
#define MPC_TEST_EMULATOR_CPU_INSTRUCTION_H

#include "SavedRegisters.h"

#include <optional>

namespace mpc::emulator {

/// The legacy prefix that the pp field encodes.
enum class Prefix { None, P66, PF3, PF2 };

struct Instruction {
  bool evex;
  unsigned map; // 1: 0F, 2: 0F38, 3: 0F3A, 5 and 6: float16
  Prefix prefix;
  bool w;
  uint8_t opcode;
  unsigned vectorBytes; // 16, 32 or 64
  unsigned reg;         // ModRM.reg with its extensions
  unsigned rm;          // the register of ModRM.rm, if it is one
  unsigned vvvv;
  unsigned maskNumber; // 0: no mask
  bool zeroing;
  bool broadcast; // of memory; for registers, embedded rounding
  bool inMemory;
  uint8_t immediate; // of map 3
  unsigned length;   // in bytes

  /// Address of the operand in memory. EVEX counts one-byte displacements in
  /// operands of `size` bytes.
  uint64_t address(unsigned size) const {
    int64_t unit = compressed ? int64_t{size} : int64_t{1};
    return base + index + static_cast<uint64_t>(displacement * unit);
  }

  /// For tiles, the scaled index of the address is the distance of two rows.
  uint64_t firstRow() const {
    return base + static_cast<uint64_t>(displacement);
  }
  uint64_t rowDistance() const { return index; }

  /// Decodes the next instruction of `registers`. nullopt if it has neither
  /// prefix.
  static std::optional<Instruction> decode(const SavedRegisters &registers);

private:
  /// Reads ModRM and its operands. Returns the address of the next byte.
  const uint8_t *decodeOperands(const uint8_t *code, unsigned regHigh,
                                unsigned indexHigh, unsigned rmHigh,
                                const SavedRegisters &registers);

  uint64_t base;
  uint64_t index; // times its scale; 0 if there is none
  int64_t displacement;
  bool compressed; // counts operands, not bytes
};

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CPU_INSTRUCTION_H
