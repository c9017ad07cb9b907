// SPDX-License-Identifier: Apache-2.0
#include "Instruction.h"

#include <cstring>

using namespace mpc::emulator;

// Prefix fields are inverted: 1 if `bit` of `byte` is 0.
static unsigned inverted(uint8_t byte, unsigned bit) {
  return ~byte >> bit & 1u;
}

template <class T>
static int64_t readSigned(const uint8_t *code) {
  T value;
  std::memcpy(&value, code, sizeof(T));
  return value;
}

const uint8_t *Instruction::decodeOperands(const uint8_t *code,
                                           unsigned regHigh, unsigned indexHigh,
                                           unsigned rmHigh,
                                           const SavedRegisters &registers) {
  const uint8_t modrm = *code++;
  const unsigned mod = modrm >> 6;
  reg = regHigh | (modrm >> 3 & 7);
  inMemory = mod != 3;
  rm = rmHigh | (modrm & 7);
  base = index = 0;
  displacement = 0;
  compressed = evex && mod == 1;
  if (!inMemory)
    return code;

  // The extension of rm for vector registers does not apply to addresses.
  unsigned baseNumber = rm & 15;
  bool hasBase = true, relative = false;
  if ((modrm & 7) == 4) {
    const uint8_t sib = *code++;
    const unsigned indexNumber = indexHigh | (sib >> 3 & 7);
    if (indexNumber != 4)
      index = registers.general(indexNumber) << (sib >> 6);
    baseNumber = (rm & 8) | (sib & 7);
    hasBase = mod != 0 || (sib & 7) != 5;
  } else if (mod == 0 && (modrm & 7) == 5) {
    hasBase = false;
    relative = true;
  }
  if (mod == 1) {
    displacement = readSigned<int8_t>(code);
    code += 1;
  } else if (mod == 2 || !hasBase) {
    displacement = readSigned<int32_t>(code);
    code += 4;
  }
  if (hasBase)
    base = registers.general(baseNumber);
  else if (relative)
    base = registers.address() +
           static_cast<uint64_t>(code - registers.instruction()) +
           (map == 3 ? 1 : 0);
  return code;
}

std::optional<Instruction>
Instruction::decode(const SavedRegisters &registers) {
  const uint8_t *const first = registers.instruction();
  const uint8_t *code = first;
  Instruction result = {};
  unsigned regHigh, indexHigh, rmHigh;
  if (code[0] == 0xc4) {
    result.map = code[1] & 0x1f;
    regHigh = inverted(code[1], 7) << 3;
    indexHigh = inverted(code[1], 6) << 3;
    rmHigh = inverted(code[1], 5) << 3;
    result.w = code[2] >> 7;
    result.vvvv = ~code[2] >> 3 & 15u;
    result.vectorBytes = code[2] & 4 ? 32 : 16;
    result.prefix = static_cast<Prefix>(code[2] & 3);
    code += 3;
  } else if (code[0] == 0x62) {
    result.evex = true;
    result.map = code[1] & 7;
    regHigh = inverted(code[1], 7) << 3 | inverted(code[1], 4) << 4;
    indexHigh = inverted(code[1], 6) << 3;
    rmHigh = inverted(code[1], 5) << 3 | inverted(code[1], 6) << 4;
    result.w = code[2] >> 7;
    result.vvvv = (~code[2] >> 3 & 15u) | inverted(code[3], 3) << 4;
    result.prefix = static_cast<Prefix>(code[2] & 3);
    result.zeroing = code[3] >> 7;
    result.vectorBytes = 16u << (code[3] >> 5 & 3);
    result.broadcast = code[3] >> 4 & 1;
    result.maskNumber = code[3] & 7;
    code += 4;
  } else {
    return std::nullopt;
  }
  result.opcode = *code++;
  code = result.decodeOperands(code, regHigh, indexHigh, rmHigh, registers);
  if (result.map == 3)
    result.immediate = *code++;
  result.length = static_cast<unsigned>(code - first);
  return result;
}
