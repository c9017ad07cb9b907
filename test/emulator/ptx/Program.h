// A PTX module ready to run: every instruction has its handler, and every
// operand is a slot in the register file.
//
// The register file of a warp holds, for each register, the values of the 32
// lanes side by side, so that a handler is one loop over lanes. A predicate is
// one word, with a bit per lane. Numbers and special registers have slots too,
// which are filled before the warp starts: a handler sees registers only.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_PROGRAM_H
#define MPC_TEST_EMULATOR_PTX_PROGRAM_H

#include "test/emulator/ptx/Syntax.h"

#include <memory>
#include <string_view>

namespace mpc::emulator::ptx {

class Warp;
struct Inst;

inline constexpr unsigned kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffff;
inline constexpr uint32_t kNone = 0xffffffff;

/// Executes an instruction in the lanes whose bits are set.
using Handler = void (*)(Warp &, const Inst &, uint32_t lanes);

/// The scheduler's action at an instruction.
enum class Flow : uint8_t {
  Next,     ///< run it, go on
  Branch,   ///< to `target`
  Exit,     ///< the lanes end
  Barrier,  ///< wait for all threads of the block
  Converge, ///< wait for the warp's lanes in `members`, then run it
};

struct Inst {
  Handler run = nullptr;
  Flow flow = Flow::Next;
  bool guardNegated = false;
  uint8_t count = 1;        ///< elements of a vector
  uint8_t elementBytes = 0; ///< of a memory access
  uint8_t registerBytes = 0;
  bool isSigned = false;
  uint16_t mode = 0; ///< other information from modifiers
  uint32_t guard = kNone;
  uint32_t line = 0;
  uint32_t target = 0;
  uint32_t members = kNone; ///< lanes a Converge waits for; kNone: all
  int64_t offset = 0;       ///< of an address
  uint32_t slots[14] = {};  ///< the operands' places
};

/// Registers that the device sets, 32 bits each.
enum class SpecialRegister : uint8_t {
  TidX,
  TidY,
  TidZ,
  NTidX,
  NTidY,
  NTidZ,
  CtaIdX,
  CtaIdY,
  CtaIdZ,
  NCtaIdX,
  NCtaIdY,
  NCtaIdZ,
  LaneId,
  WarpId,
  LaneMaskEQ,
  LaneMaskLT,
  LaneMaskLE,
  LaneMaskGT,
  LaneMaskGE,
  DynamicShared,
};

struct Kernel {
  struct Constant {
    uint32_t slot;
    unsigned bytes;
    uint64_t value;
  };
  struct Special {
    uint32_t slot;
    SpecialRegister which;
  };
  struct Param {
    uint32_t offset;
    uint32_t bytes;
  };

  std::string name;
  unsigned line = 0;
  std::vector<Inst> code; ///< ends with an Exit
  uint32_t fileBytes = 0;
  std::vector<Constant> constants;
  std::vector<Special> specials;
  std::vector<Param> params;
  uint32_t paramBytes = 0;
  uint32_t sharedBytes = 0; ///< static; dynamic shared memory follows
  uint32_t localBytes = 0;  ///< of one thread
  unsigned maxThreads = 1024;
};

/// A variable of the module, with its memory.
struct GlobalMemory {
  std::string name;
  bool isConstant = false;
  uint64_t bytes = 0;
  std::unique_ptr<uint8_t[]> storage;
  uint8_t *address = nullptr; ///< aligned, inside the storage
};

struct Module {
  unsigned version = 0;
  std::string target;
  std::vector<Kernel> kernels;
  std::vector<GlobalMemory> globals;
  std::vector<std::string> lines;

  const Kernel *find(std::string_view name) const {
    for (const Kernel &kernel : kernels)
      if (kernel.name == name)
        return &kernel;
    return nullptr;
  }
};

/// Parses and decodes. Throws ModuleError.
Module loadModule(std::string_view text);

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_PROGRAM_H
