// The registers of a thread that a signal stopped, as its handler sees them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CPU_SAVEDREGISTERS_H
#define MPC_TEST_EMULATOR_CPU_SAVEDREGISTERS_H

#include <array>
#include <cstdint>
#include <ucontext.h>

namespace mpc::emulator {

/// The bytes of a vector register, the lowest xmm byte first.
struct alignas(64) Vector {
  std::array<uint8_t, 64> bytes;
};

/// Reads registers from the kernel's signal frame, and writes values that the
/// thread gets when the handler returns.
class SavedRegisters {
public:
  /// Finds the frame's layout by cpuid. Call once, before the first signal.
  static void findLayout();

  explicit SavedRegisters(ucontext_t *context);
  /// Uses a hand-made frame: general registers in the order of a `gregset_t`,
  /// and XSAVE's data. The instruction lies at `code`, but ran elsewhere.
  SavedRegisters(greg_t *general, uint8_t *saved, const uint8_t *code)
      : gregs(general), saved(saved), code(code) {}

  /// Reads the instruction from a copy.
  void readInstructionAt(const uint8_t *copy) { code = copy; }

  /// The bytes of the instruction, and the address where it runs.
  const uint8_t *instruction() const { return code; }
  uint64_t address() const { return static_cast<uint64_t>(gregs[REG_RIP]); }
  void setAddress(uint64_t address);

  /// Registers by their number in an instruction: rax, rcx, rdx, rbx, rsp, rbp,
  /// rsi, rdi, r8 to r15.
  uint64_t general(unsigned number) const;
  void setGeneral(unsigned number, uint64_t value);

  /// zmm0 to zmm31.
  Vector vector(unsigned number) const;
  void setVector(unsigned number, const Vector &value);

  /// k0 to k7.
  uint64_t mask(unsigned number) const;
  void setMask(unsigned number, uint64_t value);

  /// Sets CF, ZF and PF like a comparison, and clears OF, AF and SF.
  void setComparison(bool carry, bool zero, bool parity);

private:
  void markUsed(unsigned component);

  greg_t *gregs;
  uint8_t *saved; // XSAVE's standard format, not compacted
  const uint8_t *code;
};

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CPU_SAVEDREGISTERS_H
