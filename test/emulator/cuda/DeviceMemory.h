// Device memory: host memory with a record of allocations.
//
// Addresses are never reused, and an inaccessible page follows every
// allocation. This finds accesses beyond the end and after a free. New memory
// holds NaNs in every float type (its first GiB).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CUDA_DEVICEMEMORY_H
#define MPC_TEST_EMULATOR_CUDA_DEVICEMEMORY_H

#include "test/emulator/ptx/Warp.h"

#include <map>
#include <memory>
#include <vector>

namespace mpc::emulator {

class DeviceMemory {
public:
  using Ranges = std::vector<ptx::MemoryRange>;

  /// 0 if memory is exhausted.
  uint64_t allocate(uint64_t bytes, uint64_t capacity);
  /// True if `allocate` returned `address`.
  bool free(uint64_t address);

  /// Host memory that the device may use: pinned memory, and modules' globals.
  void add(ptx::MemoryRange range);
  void remove(uint64_t begin);

  uint64_t used() const { return usedBytes; }

  /// True if one allocation contains all of [address, address + bytes).
  bool contains(uint64_t address, uint64_t bytes) const;

  /// The current allocations, sorted by address.
  std::shared_ptr<const Ranges> ranges();

private:
  std::map<uint64_t, ptx::MemoryRange> all; ///< by their begin
  std::map<uint64_t, uint64_t> allocations; ///< the device's own: begin, size
  std::shared_ptr<const Ranges> snapshot;
  uint64_t reserved = 0, reservedEnd = 0;
  uint64_t usedBytes = 0;
};

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CUDA_DEVICEMEMORY_H
