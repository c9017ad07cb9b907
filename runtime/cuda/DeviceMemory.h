// Memory of a GPU: allocation, with an account of who needs it when there is
// not enough, and the scratch memory that library calls share.
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
  /// `plan` outlives the object.
  DeviceMemory(const Driver &driver, const GPU &gpu, const Plan &plan)
      : driver(driver), gpu(gpu), plan(plan) {}

  /// At least `bytes`, not initialised, aligned to 256 bytes. Device where
  /// there is not enough, with what is needed, what is free, and the largest
  /// consumers of the plan.
  StatusOr<DevicePointer> allocate(size_t bytes) const;
  void release(DevicePointer memory) const;

  const Driver &getDriver() const { return driver; }

private:
  Status outOfMemory(size_t bytes) const;

  const Driver &driver;
  const GPU &gpu;
  const Plan &plan;
};

/// What a plan needs in all and its largest consumers, for a message.
std::string describeMemory(const Plan &plan);

/// Scratch memory for library calls. All of them run on one stream, one after
/// the other, so they share it.
class Workspace {
public:
  explicit Workspace(const DeviceMemory &memory) : memory(memory) {}
  ~Workspace();
  Workspace(const Workspace &) = delete;
  Workspace &operator=(const Workspace &) = delete;

  /// Makes it at least that large; where that fails it is as large as before.
  Status reserve(size_t bytes);

  /// Its address, which holds as long as this object does, though a later
  /// `reserve` may give those who ask after it another.
  DevicePointer take();

  size_t bytes() const { return total; }

  /// Where it is allocated.
  const DeviceMemory &getMemory() const { return memory; }

private:
  Status allocate(size_t bytes);

  const DeviceMemory &memory;
  DevicePointer block = 0;
  size_t size = 0, total = 0;
  size_t promised = 0; ///< the most that was reserved
  bool taken = false;
  std::vector<DevicePointer> retired; ///< taken, then outgrown
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DEVICEMEMORY_H
