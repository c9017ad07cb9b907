// Copies an input's next value to the GPU while the GPU works.
//
// A separate stream copies the value from pinned memory to a second block of
// device memory. Then the stream of the functions copies the block to the
// input, which takes microseconds. There are two blocks of pinned memory, so
// that the host fills one while the GPU reads the other.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_PINNEDSTAGE_H
#define MPC_RUNTIME_CUDA_PINNEDSTAGE_H

#include "runtime/Device.h"
#include "runtime/cuda/DeviceMemory.h"

#include <array>

namespace mpc::runtime::cuda {

/// The resources that all stages of a device share, and that must outlive the
/// stages.
struct StageResources {
  const CUDADriver &driver;
  Context context;
  const DeviceMemory &memory;
  Stream functions; ///< runs the functions that read the inputs
  Stream copies;    ///< copies values from the host
  size_t &bytes;    ///< device memory of all stages
};

class PinnedStage : public InputStage {
public:
  /// Creates the stage of the input at address `input`, of `bytes` bytes. A
  /// Device error if memory is short, or would be short for later allocations.
  static StatusOr<std::unique_ptr<InputStage>>
  open(const StageResources &resources, DevicePointer input, size_t bytes);
  ~PinnedStage() override;

  StatusOr<std::byte *> memory() override;
  Status send() override;

private:
  /// Pinned memory of the input's size, and an event at the end of the last
  /// copy from it.
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
  size_t current = 0;       ///< index of the slot that memory() returned last
  DevicePointer beside = 0; ///< device memory for the value that was sent
  Event taken = nullptr;    ///< recorded when `beside` has been copied
  bool wasTaken = false;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_PINNEDSTAGE_H
