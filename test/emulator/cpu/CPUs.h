// The emulated CPUs, by their answers to cpuid and xgetbv.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CPU_CPUS_H
#define MPC_TEST_EMULATOR_CPU_CPUS_H

#include <cstddef>
#include <cstdint>

namespace mpc::emulator {

struct Registers {
  uint32_t eax, ebx, ecx, edx;
};

struct Leaf;

struct CPU {
  const char *name;
  const Leaf *leaves;
  size_t leafCount;
  /// The components of XCR0 that Linux saves: `(real & keep) | set`.
  uint64_t keepState, setState;

  Registers cpuid(uint32_t leaf, uint32_t subleaf) const;
  uint64_t xgetbv() const;
  /// True if the CPU has tiles and float16 arithmetic, which must be emulated.
  bool hasTiles() const { return setState != 0; }

  /// Null if no CPU has this name.
  static const CPU *find(const char *name);
};

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CPU_CPUS_H
