// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/SharedMemory.h"

#include "test/emulator/ptx/Warp.h"

#include <algorithm>
#include <cstring>

using namespace mpc::emulator::ptx;

static constexpr uint32_t kAlignment = 1024;

void SharedMemory::reset(uint32_t bytes) {
  if (storage.size() < bytes + kAlignment) {
    storage.resize(bytes + kAlignment);
    words.resize(bytes / 4 + 1);
    auto begin = reinterpret_cast<uintptr_t>(storage.data());
    memory = storage.data() + (-begin & (kAlignment - 1));
  }
  size = bytes;
  ++epoch; // forgets the last block's accesses
  ++block;
  std::memset(memory, 0xff, bytes);
}

bool SharedMemory::conflicts(const Access &access, Accessor accessor,
                             uint8_t bytes) const {
  if (access.epoch != epoch || !(access.bytes & bytes) ||
      access.who == Access::Unwatched)
    return false;
  if (access.who == Access::Many)
    return true;
  if (access.thread == accessor.thread)
    return false;
  bool sameWarp = access.thread / kLanes == accessor.thread / kLanes;
  return !sameWarp || access.syncs == accessor.syncs;
}

void SharedMemory::remember(Access &access, Accessor accessor,
                            uint8_t bytes) const {
  bool isLater = access.epoch == epoch && access.bytes;
  bool sameWarp = access.thread / kLanes == accessor.thread / kLanes;
  // Replaces an access that a warp's barrier ordered before this one, or this
  // thread's own.
  bool ordered =
      access.who == Access::One && sameWarp && access.syncs != accessor.syncs;
  if (!isLater || ordered) {
    access = {epoch, accessor.syncs, static_cast<uint16_t>(accessor.thread),
              bytes, Access::One};
    return;
  }
  if (access.who != Access::One || access.thread == accessor.thread) {
    access.bytes |= bytes;
    return;
  }
  // If several threads share the same bytes, one represents its warp.
  if (access.bytes == bytes) {
    if (!sameWarp)
      access.who = Access::Many;
    return;
  }
  access.who = Access::Unwatched;
  access.bytes |= bytes;
}

void SharedMemory::reportRace(const Access &access, const char *earlier,
                              const char *now, uint64_t address,
                              Accessor accessor, unsigned lane) const {
  std::string who = access.who == Access::Many
                        ? std::string("several threads")
                        : "thread " + std::to_string(access.thread);
  throw KernelFault{KernelFault::LaunchFailed,
                    "race in shared memory: thread " +
                        std::to_string(accessor.thread) + " " + now +
                        " address " + std::to_string(address) + " which " +
                        who + " " + earlier + " since the last barrier",
                    lane};
}

uint8_t *SharedMemory::access(uint64_t address, unsigned bytes, bool write,
                              Accessor accessor, unsigned lane) {
  if (address > size || size - address < bytes)
    throw KernelFault{
        KernelFault::IllegalAddress,
        "access of " + std::to_string(bytes) + " bytes at shared address " +
            std::to_string(address) + " of " + std::to_string(size),
        lane};
  uint64_t end = address + bytes;
  for (uint64_t word = address / 4; word * 4 < end; ++word) {
    uint64_t first = std::max(address, word * 4);
    uint64_t last = std::min(end, word * 4 + 4);
    auto mask = static_cast<uint8_t>(((1u << (last - first)) - 1)
                                     << (first - word * 4));
    Word &state = words[word];
    if (state.copiedIn == block)
      throw KernelFault{KernelFault::LaunchFailed,
                        "shared address " + std::to_string(first) +
                            " is that of an asynchronous copy that nobody has "
                            "waited for",
                        lane};
    if (conflicts(state.write, accessor, mask))
      reportRace(state.write, "wrote", write ? "writes" : "reads", first,
                 accessor, lane);
    if (write && conflicts(state.read, accessor, mask))
      reportRace(state.read, "read", "writes", first, accessor, lane);
    remember(write ? state.write : state.read, accessor, mask);
  }
  return memory + address;
}

uint8_t *SharedMemory::beginCopy(uint64_t address, unsigned bytes,
                                 Accessor accessor, unsigned lane) {
  uint8_t *place = access(address, bytes, true, accessor, lane);
  for (uint64_t word = address / 4; word < (address + bytes) / 4; ++word)
    words[word].copiedIn = block;
  return place;
}

uint8_t *SharedMemory::endCopy(uint64_t address, unsigned bytes,
                               Accessor accessor, unsigned lane) {
  for (uint64_t word = address / 4; word < (address + bytes) / 4; ++word)
    words[word].copiedIn = 0;
  return access(address, bytes, true, accessor, lane);
}
