// XSAVE's layout of registers: 512 bytes in FXSAVE's format, then a header. The
// header's first word lists the components with values other than initial. Then
// come the components at the offsets that cpuid gives.
//
// SPDX-License-Identifier: Apache-2.0
#include "SavedRegisters.h"

#include <cpuid.h>
#include <cstring>

using namespace mpc::emulator;

namespace {

enum Component : unsigned {
  kSSE = 1,
  kAVX = 2,       // bytes 16 to 31 of zmm0 to zmm15
  kMasks = 5,     // k0 to k7
  kHighHalf = 6,  // bytes 32 to 63 of zmm0 to zmm15
  kHighRegs = 7,  // zmm16 to zmm31
  kComponents = 8 // the number of components used here
};

constexpr size_t kXMM = 160; // in FXSAVE's format
constexpr size_t kHeader = 512;

size_t offsets[kComponents];

} // namespace

void SavedRegisters::findLayout() {
  for (unsigned component : {kAVX, kMasks, kHighHalf, kHighRegs}) {
    uint32_t size, offset, ecx, edx;
    __cpuid_count(0xd, component, size, offset, ecx, edx);
    offsets[component] = offset;
  }
}

SavedRegisters::SavedRegisters(ucontext_t *context)
    : gregs(context->uc_mcontext.gregs),
      saved(reinterpret_cast<uint8_t *>(context->uc_mcontext.fpregs)),
      code(reinterpret_cast<const uint8_t *>(address())) {}

void SavedRegisters::setAddress(uint64_t address) {
  gregs[REG_RIP] = static_cast<greg_t>(address);
}

static int gregOf(unsigned number) {
  static constexpr int numbers[] = {
      REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return numbers[number];
}

uint64_t SavedRegisters::general(unsigned number) const {
  return static_cast<uint64_t>(gregs[gregOf(number)]);
}

void SavedRegisters::setGeneral(unsigned number, uint64_t value) {
  gregs[gregOf(number)] = static_cast<greg_t>(value);
}

Vector SavedRegisters::vector(unsigned number) const {
  Vector value;
  uint8_t *bytes = value.bytes.data();
  if (number >= 16) {
    std::memcpy(bytes, saved + offsets[kHighRegs] + (number - 16) * 64, 64);
    return value;
  }
  std::memcpy(bytes, saved + kXMM + number * 16, 16);
  std::memcpy(bytes + 16, saved + offsets[kAVX] + number * 16, 16);
  std::memcpy(bytes + 32, saved + offsets[kHighHalf] + number * 32, 32);
  return value;
}

void SavedRegisters::setVector(unsigned number, const Vector &value) {
  const uint8_t *bytes = value.bytes.data();
  if (number >= 16) {
    markUsed(kHighRegs);
    std::memcpy(saved + offsets[kHighRegs] + (number - 16) * 64, bytes, 64);
    return;
  }
  markUsed(kSSE);
  markUsed(kAVX);
  markUsed(kHighHalf);
  std::memcpy(saved + kXMM + number * 16, bytes, 16);
  std::memcpy(saved + offsets[kAVX] + number * 16, bytes + 16, 16);
  std::memcpy(saved + offsets[kHighHalf] + number * 32, bytes + 32, 32);
}

uint64_t SavedRegisters::mask(unsigned number) const {
  uint64_t value;
  std::memcpy(&value, saved + offsets[kMasks] + number * 8, 8);
  return value;
}

void SavedRegisters::setMask(unsigned number, uint64_t value) {
  markUsed(kMasks);
  std::memcpy(saved + offsets[kMasks] + number * 8, &value, 8);
}

void SavedRegisters::setComparison(bool carry, bool zero, bool parity) {
  constexpr greg_t CF = 0x1, PF = 0x4, AF = 0x10, ZF = 0x40, SF = 0x80,
                   OF = 0x800;
  greg_t &flags = gregs[REG_EFL];
  flags &= ~(CF | PF | AF | ZF | SF | OF);
  flags |= (carry ? CF : 0) | (zero ? ZF : 0) | (parity ? PF : 0);
}

// A component in its initial state is restored only if the header marks it as
// changed. XSAVE wrote its initial values, which are zeros.
void SavedRegisters::markUsed(unsigned component) {
  uint64_t used;
  std::memcpy(&used, saved + kHeader, 8);
  used |= uint64_t{1} << component;
  std::memcpy(saved + kHeader, &used, 8);
}
