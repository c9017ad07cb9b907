// A missing feature is only undeclared: its instructions still work if the host
// has them. Features beyond the host's are tiles and float16 arithmetic, whose
// instructions are emulated.
//
// SPDX-License-Identifier: Apache-2.0
#include "CPUs.h"

#include <cpuid.h>
#include <cstring>
#include <iterator>

using namespace mpc::emulator;

/// The answer to eax = leaf, ecx = subleaf: `(real & keep) | set`.
struct mpc::emulator::Leaf {
  uint32_t leaf, subleaf;
  Registers keep, set;
};

namespace {

constexpr uint32_t kAll = ~0u;
constexpr uint32_t bit(unsigned number) { return 1u << number; }

// Leaf 7.0 in edx, and 7.1 in eax: features of Intel's servers only.
constexpr uint32_t kFP16AndTiles = bit(22) | bit(23) | bit(24) | bit(25);
constexpr uint32_t kIFMAOfAVXAndFP16Tiles = bit(21) | bit(23);
constexpr uint32_t kVNNIOfAVX = bit(4);
// Leaf 7.0 in ebx: features newer than Haswell.
constexpr uint32_t kAVX512 = bit(16) | bit(17) | bit(21) | bit(26) | bit(27) |
                             bit(28) | bit(30) | bit(31);
constexpr uint32_t kRDSEEDAndADXAndSHA = bit(18) | bit(19) | bit(29);

/// A cache with 64-byte lines: data (1), instructions (2) or both (3).
constexpr Registers cache(uint32_t type, uint32_t level, uint32_t ways,
                          uint32_t sets) {
  return {type | level << 5 | bit(8), 63 | (ways - 1) << 22, sets - 1, 0};
}

/// Family 1Ah, model 02h.
constexpr Leaf kZen5[] = {
    {0x0, 0, {}, {0x10, 0x68747541, 0x444d4163, 0x69746e65}},
    {0x1, 0, {0, kAll, kAll, kAll}, {0x00b00f21, 0, 0, 0}},
    {0x2, 0, {}, {}},
    {0x4, 0, {}, {}},
    {0x4, 1, {}, {}},
    {0x4, 2, {}, {}},
    {0x4, 3, {}, {}},
    {0x7, 0, {kAll, kAll, kAll, ~kFP16AndTiles}, {}},
    {0x7, 1, {~kIFMAOfAVXAndFP16Tiles, kAll, kAll, 0}, {}},
    {0x14, 0, {}, {}},
    {0x19, 0, {}, {}},
    {0x1a, 0, {}, {}},
    {0x1d, 0, {}, {}},
    {0x1e, 0, {}, {}},
    {0x1f, 0, {}, {}},
    {0x80000000, 0, {}, {0x80000021, 0x68747541, 0x444d4163, 0x69746e65}},
    // Bit 22: leaf 8000001Dh describes caches.
    {0x80000001, 0, {0, 0, kAll, kAll}, {0x00b00f21, 0, bit(22), 0}},
    {0x80000006, 0, {}, {0, 0, 1024u << 16 | 0x8140, 64u << 18 | 0x9140}},
    {0x80000008, 0, {0xffff, 0, 0, 0}, {0, 0, 1, 0}},
    {0x8000001d, 0, {}, cache(1, 1, 12, 64)},
    {0x8000001d, 1, {}, cache(2, 1, 8, 64)},
    {0x8000001d, 2, {}, cache(3, 2, 16, 1024)},
    {0x8000001d, 3, {}, cache(3, 3, 16, 32768)},
    {0x8000001e, 0, {}, {}},
};

/// Family 6, model 8Fh.
constexpr Leaf kSapphireRapids[] = {
    {0x0, 0, {}, {0x20, 0x756e6547, 0x6c65746e, 0x49656e69}},
    {0x1, 0, {0, kAll, kAll, kAll}, {0x000806f8, 0, 0, 0}},
    {0x4, 0, {}, cache(1, 1, 12, 64)},
    {0x4, 1, {}, cache(2, 1, 8, 64)},
    {0x4, 2, {}, cache(3, 2, 16, 2048)},
    {0x4, 3, {}, cache(3, 3, 15, 114688)},
    {0x7, 0, {kAll, kAll, kAll, kAll}, {1, 0, 0, kFP16AndTiles}},
    // Without this bit oneDNN avoids float16. Nothing here uses it.
    {0x7, 1, {~kIFMAOfAVXAndFP16Tiles, kAll, kAll, 0}, {kVNNIOfAVX, 0, 0, 0}},
    // Tiles: one palette of 8 tiles, with 16 rows of 64 bytes.
    {0x1d, 0, {}, {1, 0, 0, 0}},
    {0x1d, 1, {}, {8192 | 1024 << 16, 64 | 8 << 16, 16, 0}},
    {0x1e, 0, {}, {0, 16 | 64 << 8, 0, 0}},
};

/// Family 6, model 3Fh.
constexpr Leaf kHaswell[] = {
    {0x0, 0, {}, {0xd, 0x756e6547, 0x6c65746e, 0x49656e69}},
    {0x1, 0, {0, kAll, kAll, kAll}, {0x000306f2, 0, 0, 0}},
    {0x4, 0, {}, cache(1, 1, 8, 64)},
    {0x4, 1, {}, cache(2, 1, 8, 64)},
    {0x4, 2, {}, cache(3, 2, 8, 512)},
    {0x4, 3, {}, cache(3, 3, 20, 24576)},
    {0x7, 0, {0, ~(kAVX512 | kRDSEEDAndADXAndSHA), 0, 0}, {}},
    {0x7, 1, {}, {}},
};

constexpr uint64_t kAVX512State = 0xe0, kTileState = 0x60000;

constexpr CPU kCPUs[] = {
    {"sapphirerapids", kSapphireRapids, std::size(kSapphireRapids), ~0ull,
     kTileState},
    {"zen5", kZen5, std::size(kZen5), ~kTileState, 0},
    {"haswell", kHaswell, std::size(kHaswell), ~(kTileState | kAVX512State), 0},
};

} // namespace

// Leaves without subleaves ignore ecx.
static bool hasSubleaves(uint32_t leaf) {
  return leaf == 0x4 || leaf == 0x7 || leaf == 0x1d || leaf == 0x8000001d;
}

Registers CPU::cpuid(uint32_t leaf, uint32_t subleaf) const {
  Registers real;
  __cpuid_count(leaf, subleaf, real.eax, real.ebx, real.ecx, real.edx);
  for (size_t i = 0; i < leafCount; ++i) {
    const Leaf &known = leaves[i];
    if (known.leaf != leaf || (hasSubleaves(leaf) && known.subleaf != subleaf))
      continue;
    const Registers &keep = known.keep, &set = known.set;
    return {(real.eax & keep.eax) | set.eax, (real.ebx & keep.ebx) | set.ebx,
            (real.ecx & keep.ecx) | set.ecx, (real.edx & keep.edx) | set.edx};
  }
  return real;
}

uint64_t CPU::xgetbv() const {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (((uint64_t{high} << 32) | low) & keepState) | setState;
}

const CPU *CPU::find(const char *name) {
  for (const CPU &cpu : kCPUs)
    if (std::strcmp(cpu.name, name) == 0)
      return &cpu;
  return nullptr;
}
