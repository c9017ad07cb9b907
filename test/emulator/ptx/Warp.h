// The state of a running warp and of its block, as instruction handlers see it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_WARP_H
#define MPC_TEST_EMULATOR_PTX_WARP_H

#include "test/emulator/ptx/GlobalAccesses.h"
#include "test/emulator/ptx/Program.h"
#include "test/emulator/ptx/SharedMemory.h"

namespace mpc::emulator::ptx {

/// The reason why a kernel was stopped. Handlers throw it, and the executor
/// adds the place.
struct KernelFault {
  enum Kind { IllegalAddress, MisalignedAddress, LaunchFailed, Timeout };
  Kind kind = LaunchFailed;
  std::string message;
  unsigned lane = 0;
};

/// Device memory that a kernel may touch.
struct MemoryRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool isConstant = false;
};

struct Dim {
  unsigned x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

/// Data that all blocks of a launch share.
struct Launch {
  const Module *module = nullptr;
  const Kernel *kernel = nullptr;
  Dim grid, block;
  unsigned dynamicShared = 0;
  const uint8_t *params = nullptr;
  const std::vector<MemoryRange> *memory = nullptr; ///< sorted by address
};

// Generic addresses of shared and local memory, outside all host addresses.
inline constexpr uint64_t kSharedWindow = 1ull << 56;
inline constexpr uint64_t kLocalWindow = 2ull << 56;
inline constexpr uint64_t kWindowMask = 0xffull << 56;

/// The lanes' asynchronous copies without a wait so far.
struct AsyncCopy {
  unsigned lane;
  unsigned group;
  uint32_t to; ///< in shared memory
  uint64_t from;
  uint8_t bytes, read; ///< bytes after `read` become zero
};

class Warp {
public:
  Warp(const Launch &launch, SharedMemory &shared, GlobalAccesses &accesses)
      : launch(launch), shared(shared), accesses(accesses) {}

  const Launch &launch;
  SharedMemory &shared;
  GlobalAccesses &accesses;
  uint8_t *file = nullptr;
  std::vector<uint8_t> local; ///< localBytes for each lane
  unsigned firstThread = 0;   ///< of the block
  uint32_t blockStart = 0;    ///< the number in the grid of the block's first
  uint32_t existing = 0;      ///< lanes that exist in the block
  uint32_t exited = 0;
  unsigned syncs = 0; ///< warp-level memory barriers passed
  std::vector<AsyncCopy> copies;
  unsigned committed[kLanes] = {};

  template <class T>
  T *lanes(uint32_t slot) {
    return reinterpret_cast<T *>(file + slot);
  }
  uint32_t &predicate(uint32_t slot) {
    return *reinterpret_cast<uint32_t *>(file + slot);
  }

  /// The value of a special register.
  uint32_t special(SpecialRegister which, unsigned lane, Dim block) const;

  /// Host memory behind a global address, after the check for races. Throws
  /// KernelFault.
  uint8_t *global(uint64_t address, unsigned bytes, bool write, unsigned lane);
  uint8_t *localMemory(uint64_t address, unsigned bytes, unsigned lane);
  const uint8_t *parameter(uint64_t address, unsigned bytes,
                           unsigned lane) const;
  /// Host memory behind shared memory, after the check for races.
  uint8_t *sharedMemory(uint64_t address, unsigned bytes, bool write,
                        unsigned lane) {
    return shared.access(address, bytes, write, accessor(lane), lane);
  }

  SharedMemory::Accessor accessor(unsigned lane) const {
    return {firstThread + lane, syncs};
  }

private:
  const MemoryRange *last = nullptr;
};

/// Calls `f` with each lane whose bit is set.
template <class F>
inline void forLanes(uint32_t lanes, F f) {
  if (lanes == kAllLanes) {
    for (unsigned lane = 0; lane < kLanes; ++lane)
      f(lane);
    return;
  }
  for (; lanes; lanes &= lanes - 1)
    f(static_cast<unsigned>(__builtin_ctz(lanes)));
}

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_WARP_H
