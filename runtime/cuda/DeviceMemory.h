// Allocates memory of a GPU, and explains who needs it when memory is short.
// Also manages the scratch memory that library calls share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_DEVICEMEMORY_H
#define MPC_RUNTIME_CUDA_DEVICEMEMORY_H

#include "runtime/Plan.h"
#include "runtime/cuda/Driver.h"

#include <vector>

namespace mpc::runtime::cuda {

inline void *toHostPointer(DevicePointer memory) {
  return reinterpret_cast<void *>(memory);
}
inline DevicePointer toDevicePointer(const void *memory) {
  return reinterpret_cast<DevicePointer>(memory);
}

class DeviceMemory {
public:
  /// `plan` and `shares` must outlive the object.
  DeviceMemory(const CUDADriver &driver, const GPU &gpu, const Plan &plan,
               const StateShares &shares)
      : driver(driver), gpu(gpu), plan(plan), shares(shares) {}

  /// Allocates at least `bytes`, uninitialized, aligned to 256 bytes. If memory
  /// is short, a Device error with the need, the free memory, and the largest
  /// consumers of the plan.
  StatusOr<DevicePointer> allocate(size_t bytes) const;
  void release(DevicePointer memory) const;

  const CUDADriver &getDriver() const { return driver; }

private:
  Status outOfMemory(size_t bytes) const;

  const CUDADriver &driver;
  const GPU &gpu;
  const Plan &plan;
  const StateShares &shares;
};

/// Describes the memory that a rank needs for a plan, and its largest
/// consumers, for a message.
std::string describeMemory(const Plan &plan, const StateShares &shares);

/// Scratch memory that all library calls share, since calls run one after the
/// other on a single stream.
class Workspace {
public:
  explicit Workspace(const DeviceMemory &memory) : memory(memory) {}
  ~Workspace();
  Workspace(const Workspace &) = delete;
  Workspace &operator=(const Workspace &) = delete;

  /// Grows the memory to at least `bytes`. Its size is unchanged on failure.
  Status reserve(size_t bytes);

  /// Returns the current address. The address stays valid as long as this
  /// object, but after a later `reserve` other callers may get another address.
  DevicePointer take();

  size_t bytes() const { return total; }

  /// The allocator of the workspace's memory.
  const DeviceMemory &getMemory() const { return memory; }

private:
  Status allocate(size_t bytes);

  const DeviceMemory &memory;
  DevicePointer block = 0;
  size_t size = 0, total = 0;
  size_t promised = 0; ///< the largest successful reserve
  bool taken = false;
  std::vector<DevicePointer> retired; ///< blocks that `take` has returned
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DEVICEMEMORY_H
