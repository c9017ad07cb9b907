// Implements PinnedStage: events order the copies of a value on two streams.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/PinnedStage.h"

#include <algorithm>
#include <cassert>

namespace mpc::runtime::cuda {

StatusOr<std::unique_ptr<InputStage>>
PinnedStage::open(const StageResources &resources, DevicePointer input,
                  size_t bytes) {
  // From here on, the destructor of `stage` releases what was created.
  std::unique_ptr<PinnedStage> stage(new PinnedStage(resources, input, bytes));
  if (Status status = stage->create(); !status.ok())
    return status;
  return std::unique_ptr<InputStage>(std::move(stage));
}

/// The GPU memory that must stay free after a stage has been created. Libraries
/// load kernels at the first run, and the graph of a function takes some MiB.
static constexpr size_t kSpareBytes = size_t(256) << 20;

Status PinnedStage::create() {
  const CUDADriver &driver = resources.driver;
  size_t free = 0, total = 0;
  const bool isKnown =
      driver.call.memGetInfo(&free, &total) == DriverResult::Success;
  if (isKnown && (free < bytes || free - bytes < kSpareBytes))
    return Status(StatusCode::Device, "the GPU has too little memory for a "
                                      "second value of an input");
  StatusOr<DevicePointer> memory = resources.memory.allocate(bytes);
  if (!memory.ok())
    return memory.status();
  beside = *memory;
  resources.bytes += bytes;
  for (Slot &slot : slots) {
    // The driver refuses to allocate 0 bytes.
    Status status =
        driver.check(driver.call.memHostAlloc(
                         &slot.memory, std::max<size_t>(bytes, 1), /*flags=*/0),
                     "allocate pinned host memory");
    if (status.ok())
      status = driver.check(
          driver.call.eventCreate(&slot.copied, kEventDisableTiming),
          "create an event");
    if (!status.ok())
      return status;
  }
  return driver.check(driver.call.eventCreate(&taken, kEventDisableTiming),
                      "create an event");
}

PinnedStage::~PinnedStage() {
  const DriverFunctions &call = resources.driver.call;
  ContextScope scope(resources.driver, resources.context);
  for (Slot &slot : slots) {
    if (slot.copied)
      (void)call.eventDestroy(slot.copied);
    if (slot.memory)
      (void)call.memFreeHost(slot.memory);
  }
  if (taken)
    (void)call.eventDestroy(taken);
  if (!beside)
    return;
  resources.memory.release(beside);
  resources.bytes -= bytes;
}

Status PinnedStage::check(DriverResult result) const {
  return resources.driver.check(result, "copy to the GPU while it works");
}

StatusOr<std::byte *> PinnedStage::memory() {
  ContextScope scope(resources.driver, resources.context);
  if (!scope.status().ok())
    return scope.status();
  current = 1 - current;
  Slot &slot = slots[current];
  if (slot.busy) {
    slot.busy = false;
    Status status =
        resources.driver.wait(slot.copied, "copy to the GPU while it works");
    if (!status.ok())
      return status;
  }
  return static_cast<std::byte *>(slot.memory);
}

Status PinnedStage::send() {
  const DriverFunctions &call = resources.driver.call;
  ContextScope scope(resources.driver, resources.context);
  if (!scope.status().ok() || bytes == 0)
    return scope.status();
  // Wait until the functions' stream has copied the previous value out of
  // `beside`.
  Status status;
  if (wasTaken)
    status = check(call.streamWaitEvent(resources.copies, taken, /*flags=*/0));
  Slot &slot = slots[current];
  assert(!slot.busy && "memory was asked for before the send");
  if (status.ok())
    status = check(
        call.memcpyHtoDAsync(beside, slot.memory, bytes, resources.copies));
  if (!status.ok())
    return status;
  slot.busy = true;
  status = check(call.eventRecord(slot.copied, resources.copies));
  // The functions' stream copies the value to the input after the value has
  // arrived, and after all functions that were started before.
  if (status.ok())
    status = check(
        call.streamWaitEvent(resources.functions, slot.copied, /*flags=*/0));
  if (status.ok())
    status =
        check(call.memcpyDtoDAsync(input, beside, bytes, resources.functions));
  if (status.ok())
    status = check(call.eventRecord(taken, resources.functions));
  wasTaken |= status.ok();
  return status;
}

} // namespace mpc::runtime::cuda
