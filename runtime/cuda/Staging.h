// Copies between host and GPU, through pinned memory.
//
// A copy from ordinary host memory makes the driver wait. Here the caller's
// bytes go to one of a few pinned slots, from where the stream takes them when
// their turn has come: the caller goes on while earlier steps still run. Copies
// and steps take turns on the one stream, they do not run at the same time.
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
  Staging(const Driver &driver, Stream stream)
      : driver(driver), stream(stream) {}
  ~Staging();
  Staging(const Staging &) = delete;
  Staging &operator=(const Staging &) = delete;

  /// Enqueues a copy to the device; `from` may be reused when this returns.
  Status upload(DevicePointer to, const void *from, size_t bytes);

  struct Piece {
    void *to;
    DevicePointer from;
    size_t bytes;
  };
  /// Copies from the device after everything that was enqueued, and waits: once
  /// for all that one slot holds.
  Status download(std::vector<Piece> pieces);

private:
  static constexpr size_t kSlots = 8;
  static constexpr size_t kSlotBytes = size_t(2) << 20;

  /// A piece of pinned memory and the end of the last copy out of it.
  struct Slot {
    void *memory = nullptr;
    Event done = nullptr;
    bool busy = false;
  };

  /// The next slot in turn, once the copy out of it has ended.
  StatusOr<Slot *> acquire();
  Status create(Slot &slot);

  const Driver &driver;
  Stream stream;
  std::array<Slot, kSlots> slots;
  size_t next = 0;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_STAGING_H
