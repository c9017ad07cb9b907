// Copies between host and GPU through pinned memory.
//
// The driver waits during a copy from ordinary host memory. So the caller's
// bytes go to one of a few pinned slots first, and the stream copies them from
// there. The caller continues while earlier steps still run. Copies and steps
// use a single stream, so they do not overlap.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_STAGING_H
#define MPC_RUNTIME_CUDA_STAGING_H

#include "runtime/cuda/Driver.h"

#include <array>
#include <vector>

namespace mpc::runtime::cuda {

class Staging {
public:
  Staging(const CUDADriver &driver, Stream stream)
      : driver(driver), stream(stream) {}
  ~Staging();
  Staging(const Staging &) = delete;
  Staging &operator=(const Staging &) = delete;

  /// Enqueues a copy to the device. `from` may be reused on return.
  Status upload(DevicePointer to, const void *from, size_t bytes);

  struct Copy {
    void *to;
    DevicePointer from;
    size_t bytes;
  };
  /// Copies `copies` from the device, after all enqueued work. Waits once per
  /// filled slot, instead of once per copy.
  Status download(std::vector<Copy> copies);

private:
  static constexpr size_t kSlots = 8;
  static constexpr size_t kSlotBytes = size_t(2) << 20;

  /// Pinned memory, and an event at the end of the last copy from it.
  struct Slot {
    void *memory = nullptr;
    Event done = nullptr;
    bool busy = false;
  };

  /// Returns the next slot in turn, once the last copy from it has ended.
  StatusOr<Slot *> acquire();
  Status create(Slot &slot);

  const CUDADriver &driver;
  Stream stream;
  std::array<Slot, kSlots> slots;
  size_t next = 0;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_STAGING_H
