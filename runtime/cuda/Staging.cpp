// The ring of pinned slots.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Staging.h"
#include "runtime/cuda/DeviceMemory.h"

#include <algorithm>
#include <cstring>

namespace mpc::runtime::cuda {

Staging::~Staging() {
  for (Slot &slot : slots) {
    if (slot.done)
      (void)driver.call.eventDestroy(slot.done);
    if (slot.memory)
      (void)driver.call.memFreeHost(slot.memory);
  }
}

Status Staging::create(Slot &slot) {
  Status status =
      driver.check(driver.call.memHostAlloc(&slot.memory, kSlotBytes, 0),
                   "allocate pinned host memory");
  if (!status.ok())
    return status;
  return driver.check(driver.call.eventCreate(&slot.done, kEventDisableTiming),
                      "create an event");
}

StatusOr<Staging::Slot *> Staging::acquire() {
  Slot &slot = slots[next];
  next = (next + 1) % kSlots;
  if (!slot.done)
    if (Status status = create(slot); !status.ok())
      return status;
  if (slot.busy) {
    slot.busy = false;
    Status status = driver.check(driver.call.eventSynchronize(slot.done),
                                 "finish a copy to the GPU");
    if (!status.ok())
      return status;
  }
  return &slot;
}

Status Staging::upload(DevicePointer to, const void *from, size_t bytes) {
  const auto *rest = static_cast<const std::byte *>(from);
  while (bytes > 0) {
    // Page-locked memory by parts: the GPU reads one part while the next is
    // copied.
    StatusOr<Slot *> slot = acquire();
    if (!slot.ok())
      return slot.status();
    size_t part = std::min(bytes, kSlotBytes);
    std::memcpy((*slot)->memory, rest, part);
    Status status = driver.check(
        driver.call.memcpyHtoDAsync(to, (*slot)->memory, part, stream),
        "copy to the GPU");
    if (!status.ok())
      return status;
    // The slot is free again once the GPU has read it.
    status = driver.check(driver.call.eventRecord((*slot)->done, stream),
                          "copy to the GPU");
    if (!status.ok())
      return status;
    (*slot)->busy = true;
    to += part;
    rest += part;
    bytes -= part;
  }
  return Status();
}

Status Staging::download(void *to, DevicePointer from, size_t bytes) {
  auto *rest = static_cast<std::byte *>(to);
  while (bytes > 0) {
    StatusOr<Slot *> slot = acquire();
    if (!slot.ok())
      return slot.status();
    size_t part = std::min(bytes, kSlotBytes);
    // Written by the GPU, waited for, then copied out.
    Status status = driver.check(
        driver.call.memcpyDtoHAsync((*slot)->memory, from, part, stream),
        "copy from the GPU");
    if (!status.ok())
      return status;
    status = driver.check(driver.call.streamSynchronize(stream),
                          "copy from the GPU");
    if (!status.ok())
      return status;
    std::memcpy(rest, (*slot)->memory, part);
    from += part;
    rest += part;
    bytes -= part;
  }
  return Status();
}

} // namespace mpc::runtime::cuda
