// Allocates memory on the GPU, and explains failures.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/DeviceMemory.h"
#include "runtime/cuda/SharedLibrary.h"

#include <algorithm>
#include <cassert>

namespace mpc::runtime::cuda {
namespace {

/// The most variables, and the most buffers, that a message about memory lists.
constexpr size_t kListed = 3;

/// A consumer of memory, and its description in messages.
struct Consumer {
  int64_t bytes;
  std::string text;
};

} // namespace

/// Lists the buffers that a step and the steps in it read and write.
static std::vector<size_t> listAllBuffers(const Step &step) {
  std::vector<size_t> list = listBuffers(step);
  if (const auto *loop = std::get_if<ForStep>(&step.op))
    for (const Step &nested : loop->steps) {
      const std::vector<size_t> used = listAllBuffers(nested);
      list.insert(list.end(), used.begin(), used.end());
    }
  return list;
}

static std::string inMiB(int64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

/// Lists the largest of `consumers`: "'a' 12 MiB, 'b' 4 MiB".
static std::string listLargest(std::vector<Consumer> consumers) {
  std::stable_sort(
      consumers.begin(), consumers.end(),
      [](const Consumer &a, const Consumer &b) { return a.bytes > b.bytes; });
  std::string list;
  for (size_t i = 0; i < std::min(kListed, consumers.size()); ++i)
    list += (list.empty() ? "" : ", ") + consumers[i].text + " " +
            inMiB(consumers[i].bytes);
  return list;
}

/// Returns the buffers of the arena. A buffer gets the name of the first step
/// that uses the buffer, which is the step that writes to it.
static std::vector<Consumer> arenaBuffers(const Function &function) {
  std::vector<Consumer> consumers;
  std::vector<bool> seen(function.buffers.size());
  for (const Step &step : function.steps) {
    std::vector<size_t> used = listAllBuffers(step);
    std::sort(used.begin(), used.end());
    for (size_t i : used) {
      const Buffer &buffer = function.buffers[i];
      if (seen[i] || buffer.space != Space::Arena)
        continue;
      seen[i] = true;
      consumers.push_back({buffer.bytes, "'" + step.name + "' (" +
                                             std::string(nameOf(buffer.type)) +
                                             " " + toString(buffer.shape) +
                                             ")"});
    }
  }
  return consumers;
}

std::string describeMemory(const Plan &plan, const StateShares &shares) {
  std::vector<Consumer> variables;
  for (const StateVariable &variable : plan.state)
    if (shares.holds(variable))
      variables.push_back({variable.bytes, "'" + variable.name + "'"});
  const Function *largest = nullptr;
  for (const auto &[name, function] : plan.functions)
    if (!largest || function.arenaBytes > largest->arenaBytes)
      largest = &function;

  // Name the largest variables and buffers, which show the user where memory
  // can be saved.
  std::string text = "the artifact needs " + inMiB(shares.bytes()) +
                     " for its state (largest: " + listLargest(variables) + ")";
  if (largest)
    text += " and " + inMiB(largest->arenaBytes) + " for the values of '" +
            largest->name +
            "' (largest: " + listLargest(arenaBuffers(*largest)) + ")";
  return text;
}

StatusOr<DevicePointer> DeviceMemory::allocate(size_t bytes) const {
  DevicePointer memory = 0;
  // The driver refuses to allocate 0 bytes.
  DriverResult result =
      driver.call.memAlloc(&memory, std::max<size_t>(bytes, 1));
  if (result == DriverResult::Success)
    return memory;
  if (result == DriverResult::OutOfMemory)
    return outOfMemory(bytes);
  return driver.check(result, "allocate " + std::to_string(bytes) + " bytes");
}

void DeviceMemory::release(DevicePointer memory) const {
  // Releasing fails only if the device has failed before, and that failure has
  // been reported.
  if (memory)
    (void)driver.call.memFree(memory);
}

Status DeviceMemory::outOfMemory(size_t bytes) const {
  size_t free = 0, total = 0;
  std::string found = "it cannot say how much is free";
  if (driver.call.memGetInfo(&free, &total) == DriverResult::Success)
    found = inMiB(static_cast<int64_t>(free)) + " of " +
            inMiB(static_cast<int64_t>(total)) + " are free";
  return Status(StatusCode::Device,
                gpu.describe() + " has no room for " + std::to_string(bytes) +
                    " more bytes (" + inMiB(static_cast<int64_t>(bytes)) +
                    "): " + found + "; " + describeMemory(plan, shares) +
                    "; use a smaller batch or a lower precision" +
                    kCPUAlternative);
}

Workspace::~Workspace() {
  memory.release(block);
  for (DevicePointer old : retired)
    memory.release(old);
}

Status Workspace::reserve(size_t bytes) {
  bytes = std::max(bytes, promised);
  if (bytes <= size)
    return Status();
  // A CUDA graph may have captured the address of a block that `take` returned,
  // so such a block stays allocated.
  if (taken) {
    retired.push_back(block);
  } else {
    memory.release(block);
    assert(size <= total && "the block counts in the total");
    total -= size;
  }
  block = 0;
  size = 0;
  taken = false;
  Status status = allocate(bytes);
  // Restore the size that earlier callers reserved, or the next call would
  // fail.
  if (!status.ok() && promised > 0)
    (void)allocate(promised);
  if (status.ok())
    promised = bytes;
  return status;
}

Status Workspace::allocate(size_t bytes) {
  assert(block == 0 && size == 0 && "the old block was given up");
  StatusOr<DevicePointer> allocated = memory.allocate(bytes);
  if (!allocated.ok())
    return allocated.status();
  block = *allocated;
  size = bytes;
  total += bytes;
  return Status();
}

DevicePointer Workspace::take() {
  taken = true;
  return block;
}

} // namespace mpc::runtime::cuda
