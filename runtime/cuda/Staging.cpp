// Implements Staging with a ring of pinned slots.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Staging.h"
#include "runtime/cuda/DeviceMemory.h"

#include <algorithm>
#include <cassert>
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
    Status status = driver.wait(slot.done, "finish a copy to the GPU");
    if (!status.ok())
      return status;
  }
  return &slot;
}

Status Staging::upload(DevicePointer to, const void *from, size_t bytes) {
  const auto *rest = static_cast<const std::byte *>(from);
  while (bytes > 0) {
    // The GPU reads one slot while the next is filled.
    StatusOr<Slot *> slot = acquire();
    if (!slot.ok())
      return slot.status();
    assert(!(*slot)->busy && "the GPU has read an acquired slot");
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

Status Staging::download(std::vector<Copy> copies) {
  size_t next = 0;
  while (next < copies.size()) {
    StatusOr<Slot *> slot = acquire();
    if (!slot.ok())
      return slot.status();
    auto *memory = static_cast<std::byte *>((*slot)->memory);
    // The GPU writes as many copies as the slot holds, one after the other.
    struct Part {
      void *to;
      size_t offset, bytes;
    };
    std::vector<Part> parts;
    size_t used = 0;
    while (next < copies.size() && used < kSlotBytes) {
      Copy &copy = copies[next];
      const size_t bytes = std::min(copy.bytes, kSlotBytes - used);
      if (bytes > 0) {
        Status status =
            driver.check(driver.call.memcpyDtoHAsync(memory + used, copy.from,
                                                     bytes, stream),
                         "copy from the GPU");
        if (!status.ok())
          return status;
        parts.push_back({copy.to, used, bytes});
      }
      // Each part begins on a separate cache line.
      used = std::min(kSlotBytes, (used + bytes + 63) / 64 * 64);
      copy.to = static_cast<std::byte *>(copy.to) + bytes;
      copy.from += bytes;
      copy.bytes -= bytes;
      if (copy.bytes == 0)
        ++next;
    }
    if (parts.empty())
      continue;
    Status status = driver.wait(stream, "copy from the GPU");
    if (!status.ok())
      return status;
    for (const Part &part : parts)
      std::memcpy(part.to, memory + part.offset, part.bytes);
  }
  return Status();
}

} // namespace mpc::runtime::cuda
