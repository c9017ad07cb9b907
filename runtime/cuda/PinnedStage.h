// An input's next value on its way to the GPU while the GPU works.
//
// The value goes from pinned memory to a second piece of device memory, by a
// stream of its own; the stream of the functions then copies it to where they
// read it, which takes it microseconds. Of the pinned memory there are two
// pieces, so that the host fills one while the GPU reads the other.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_PINNEDSTAGE_H
#define MPC_RUNTIME_CUDA_PINNEDSTAGE_H

#include "runtime/Device.h"
#include "runtime/cuda/DeviceMemory.h"

#include <array>

namespace mpc::runtime::cuda {

/// Where stages do their work; all of it outlives them.
struct StageResources {
  const Driver &driver;
  Context context;
  const DeviceMemory &memory;
  Stream functions; ///< runs the functions that read the inputs
  Stream copies;    ///< brings values from the host
  size_t &bytes;    ///< of device memory that all stages have
};

class PinnedStage : public InputStage {
public:
  /// Device where memory is short, or would be for those that take some later.
  static StatusOr<std::unique_ptr<InputStage>>
  open(const StageResources &resources, DevicePointer input, size_t bytes);
  ~PinnedStage() override;

  StatusOr<std::byte *> memory() override;
  Status send() override;

private:
  /// Pinned memory of the input's size, and the end of the copy out of it.
  struct Slot {
    void *memory = nullptr;
    Event copied = nullptr;
    bool busy = false;
  };

  PinnedStage(const StageResources &resources, DevicePointer input,
              size_t bytes)
      : resources(resources), input(input), bytes(bytes) {}
  Status create();
  Status check(DriverResult result) const;

  const StageResources resources;
  const DevicePointer input;
  const size_t bytes;
  std::array<Slot, 2> slots;
  size_t current = 0;       ///< the slot whose memory was asked for last
  DevicePointer beside = 0; ///< the value that was sent, on the GPU
  Event taken = nullptr;    ///< the functions' stream has read it
  bool wasTaken = false;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_PINNEDSTAGE_H
