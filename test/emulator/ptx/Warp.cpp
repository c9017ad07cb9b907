// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Warp.h"

#include <algorithm>
#include <cstdio>

using namespace mpc::emulator::ptx;

uint8_t *Warp::global(uint64_t address, unsigned bytes, bool write,
                      unsigned lane) {
  if (!last || address < last->begin || address + bytes > last->end) {
    const std::vector<MemoryRange> &memory = *launch.memory;
    auto after = std::upper_bound(
        memory.begin(), memory.end(), address,
        [](uint64_t a, const MemoryRange &range) { return a < range.begin; });
    if (after == memory.begin() || address + bytes > std::prev(after)->end ||
        address + bytes < address) {
      char text[96];
      std::snprintf(text, sizeof(text),
                    "%s of %u bytes at 0x%llx, which is not allocated",
                    write ? "write" : "read", bytes,
                    static_cast<unsigned long long>(address));
      throw KernelFault{KernelFault::IllegalAddress, text, lane};
    }
    last = &*std::prev(after);
  }
  if (write && last->isConstant)
    throw KernelFault{KernelFault::IllegalAddress, "write to constant memory",
                      lane};
  if (!last->isConstant)
    if (auto race = accesses.add(address, bytes, write,
                                 blockStart + firstThread + lane))
      throw KernelFault{KernelFault::LaunchFailed, *race, lane};
  return reinterpret_cast<uint8_t *>(address);
}

/// Throws if an access of `bytes` bytes at `address` exceeds `size`.
static void checkBounds(const char *space, uint64_t address, unsigned bytes,
                        uint64_t size, unsigned lane) {
  if (address > size || size - address < bytes)
    throw KernelFault{KernelFault::IllegalAddress,
                      "access of " + std::to_string(bytes) + " bytes at " +
                          space + " address " + std::to_string(address) +
                          " of " + std::to_string(size),
                      lane};
}

uint8_t *Warp::localMemory(uint64_t address, unsigned bytes, unsigned lane) {
  uint64_t size = launch.kernel->localBytes;
  checkBounds("local", address, bytes, size, lane);
  return local.data() + lane * size + address;
}

const uint8_t *Warp::parameter(uint64_t address, unsigned bytes,
                               unsigned lane) const {
  checkBounds("parameter", address, bytes, launch.kernel->paramBytes, lane);
  return launch.params + address;
}

uint32_t Warp::special(SpecialRegister which, unsigned lane, Dim block) const {
  using Register = SpecialRegister;
  const Dim &shape = launch.block, &grid = launch.grid;
  unsigned thread = firstThread + lane;
  uint32_t bit = 1u << lane, below = bit - 1;
  switch (which) {
  case Register::TidX:
    return thread % shape.x;
  case Register::TidY:
    return thread / shape.x % shape.y;
  case Register::TidZ:
    return thread / shape.x / shape.y;
  case Register::NTidX:
    return shape.x;
  case Register::NTidY:
    return shape.y;
  case Register::NTidZ:
    return shape.z;
  case Register::CtaIdX:
    return block.x;
  case Register::CtaIdY:
    return block.y;
  case Register::CtaIdZ:
    return block.z;
  case Register::NCtaIdX:
    return grid.x;
  case Register::NCtaIdY:
    return grid.y;
  case Register::NCtaIdZ:
    return grid.z;
  case Register::LaneId:
    return lane;
  case Register::WarpId:
    return thread / kLanes;
  case Register::LaneMaskEQ:
    return bit;
  case Register::LaneMaskLT:
    return below;
  case Register::LaneMaskLE:
    return below | bit;
  case Register::LaneMaskGT:
    return ~(below | bit);
  case Register::LaneMaskGE:
    return ~below;
  case Register::DynamicShared:
    return launch.dynamicShared;
  }
  return 0;
}
