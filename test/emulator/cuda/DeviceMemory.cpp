// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/DeviceMemory.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

using namespace mpc::emulator;

static constexpr uint64_t kAddressSpace = 1ull << 42;
static constexpr uint64_t kPage = 4096;
static constexpr uint64_t kGranularity = 512; // a device's rounding of sizes
/// Larger allocations stay untouched, and zero, until they are used: a test may
/// allocate more than the host has.
static constexpr uint64_t kMostPoison = 1ull << 30;

static void *pointer(uint64_t address) {
  return reinterpret_cast<void *>(address);
}

uint64_t DeviceMemory::allocate(uint64_t bytes, uint64_t capacity) {
  uint64_t counted = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  if (counted < bytes || counted > capacity || usedBytes > capacity - counted)
    return 0;
  if (!reserved) {
    void *space = mmap(nullptr, kAddressSpace, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
      return 0;
    reserved = reinterpret_cast<uint64_t>(space);
    reservedEnd = reserved + kAddressSpace;
  }
  uint64_t pages = (bytes + kPage - 1) / kPage * kPage;
  if (reservedEnd - reserved < pages + kPage)
    return 0;
  uint64_t address = reserved;
  if (mprotect(pointer(address), pages, PROT_READ | PROT_WRITE))
    return 0;
  reserved += pages + kPage;
  std::memset(pointer(address), 0xff, std::min(bytes, kMostPoison));
  allocations[address] = bytes;
  usedBytes += counted;
  add({address, address + bytes});
  return address;
}

bool DeviceMemory::free(uint64_t address) {
  auto found = allocations.find(address);
  if (found == allocations.end())
    return false;
  uint64_t bytes = found->second;
  uint64_t pages = (bytes + kPage - 1) / kPage * kPage;
  // Replaces the pages: frees the memory, but keeps the addresses.
  mmap(pointer(address), pages, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  usedBytes -= (bytes + kGranularity - 1) / kGranularity * kGranularity;
  allocations.erase(found);
  remove(address);
  return true;
}

void DeviceMemory::add(ptx::MemoryRange range) {
  all[range.begin] = range;
  snapshot.reset();
}

void DeviceMemory::remove(uint64_t begin) {
  all.erase(begin);
  snapshot.reset();
}

bool DeviceMemory::contains(uint64_t address, uint64_t bytes) const {
  auto after = all.upper_bound(address);
  if (after == all.begin())
    return false;
  const ptx::MemoryRange &range = std::prev(after)->second;
  return address <= range.end && range.end - address >= bytes;
}

std::shared_ptr<const DeviceMemory::Ranges> DeviceMemory::ranges() {
  if (!snapshot) {
    auto ranges = std::make_shared<Ranges>();
    for (const auto &[begin, range] : all)
      ranges->push_back(range);
    snapshot = std::move(ranges);
  }
  return snapshot;
}
