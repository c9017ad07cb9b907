// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/SharedCollectives.h"

#include "runtime/Tensor.h"
#include "runtime/distributed/Reduction.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>
#include <vector>

namespace mpc::runtime {

using Clock = std::chrono::steady_clock;
using Mark = SharedBlocks::Mark;

static constexpr size_t kSlotBytes = SharedBlocks::kSlotBytes;
static constexpr uint32_t kSlots = SharedBlocks::kSlots;
/// Up to this size, each rank adds all elements: to wait for shares would take
/// longer.
static constexpr size_t kGatheredBytes = 16 << 10;
/// A waiting exchange sleeps soon, and leaves the core to the computation.
static constexpr std::chrono::microseconds kSpinBeforeSleep{20};
static constexpr std::chrono::milliseconds kCheckInterval{2};

static size_t elementBytes(DType type) {
  return static_cast<size_t>(sizeOf(type));
}

static size_t divideUp(size_t count, size_t by) {
  return (count + by - 1) / by;
}

SharedCollectives::SharedCollectives(std::unique_ptr<SharedBlocks> blocks,
                                     int rank, int size, WaitCheck check)
    : blocks(std::move(blocks)), own(static_cast<size_t>(rank)),
      ranks(static_cast<size_t>(size)), check(std::move(check)) {}

//===----------------------------------------------------------------------===//
// The order of work
//===----------------------------------------------------------------------===//

/// Waits until the counts of all ranks have come to `count`.
Status SharedCollectives::waitForAll(Mark mark, uint32_t count) {
  Clock::time_point start;
  bool isWaiting = false;
  for (int rank = 0; rank < static_cast<int>(ranks); ++rank)
    while (!blocks->hasCome(rank, mark, count)) {
      if (!isWaiting)
        start = Clock::now();
      isWaiting = true;
      if (Clock::now() - start < kSpinBeforeSleep) {
        _mm_pause();
        continue;
      }
      blocks->sleep(rank, mark, count, kCheckInterval);
      if (Status status = check(start, rank); !status.ok())
        return status;
    }
  return Status();
}

/// Runs `count` blocks. `write(b)` fills the own slot of block b. `reduce(b)`
/// may read what all ranks have written, and adds the sums to the own slot.
/// `take(b)` may read the sums of all ranks. While a rank waits for the others
/// to reduce a block, later blocks are under way.
template <typename Write, typename Reduce, typename Take>
Status SharedCollectives::runBlocks(size_t count, Write write, Reduce reduce,
                                    Take take) {
  if (Status status = check(Clock::now(), kNoRank); !status.ok())
    return status;
  for (size_t i = 0; i < count + 2; ++i) {
    const uint32_t written = first + static_cast<uint32_t>(i) + 1;
    if (i < count) {
      if (Status status = waitForAll(Mark::Finished, written - kSlots);
          !status.ok())
        return status;
      write(i);
      blocks->raise(Mark::Written, written);
    }
    if (i >= 1 && i - 1 < count) {
      if (Status status = waitForAll(Mark::Written, written - 1); !status.ok())
        return status;
      reduce(i - 1);
      blocks->raise(Mark::Reduced, written - 1);
    }
    if (i >= 2) {
      if (Status status = waitForAll(Mark::Reduced, written - 2); !status.ok())
        return status;
      take(i - 2);
      blocks->raise(Mark::Finished, written - 2);
    }
  }
  first += static_cast<uint32_t>(count);
  return Status();
}

/// Like above, without sums in slots.
template <typename Write, typename Take>
Status SharedCollectives::runBlocks(size_t count, Write write, Take take) {
  if (Status status = check(Clock::now(), kNoRank); !status.ok())
    return status;
  for (size_t i = 0; i < count + 1; ++i) {
    const uint32_t written = first + static_cast<uint32_t>(i) + 1;
    if (i < count) {
      if (Status status = waitForAll(Mark::Finished, written - kSlots);
          !status.ok())
        return status;
      write(i);
      blocks->raise(Mark::Written, written);
    }
    if (i >= 1) {
      if (Status status = waitForAll(Mark::Written, written - 1); !status.ok())
        return status;
      take(i - 1);
      blocks->raise(Mark::Reduced, written - 1);
      blocks->raise(Mark::Finished, written - 1);
    }
  }
  first += static_cast<uint32_t>(count);
  return Status();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Status SharedCollectives::reduceSmall(std::byte *data, size_t count, DType type,
                                      Reduce kind) {
  const size_t bytes = count * elementBytes(type);
  sent += bytes * (ranks - 1);
  std::vector<const std::byte *> parts(ranks);
  return runBlocks(
      1, [&](size_t block) { std::memcpy(slotOf(own, block), data, bytes); },
      [&](size_t block) {
        for (size_t rank = 0; rank < ranks; ++rank)
          parts[rank] = slotOf(rank, block);
        reduceParts(parts.data(), ranks, data, count, type, kind);
      });
}

Status SharedCollectives::allReduce(std::byte *data, size_t count, DType type,
                                    Reduce kind) {
  const size_t width = elementBytes(type);
  if (count * width <= kGatheredBytes)
    return reduceSmall(data, count, type, kind);
  const size_t most = kSlotBytes / width;
  // The bytes of a block, and the part of it that a rank reduces.
  struct Range {
    size_t begin, size;
  };
  const auto blockAt = [&](size_t block) {
    return Range{block * most * width,
                 std::min(most, count - block * most) * width};
  };
  const auto shareOf = [&](size_t rank, size_t bytes) {
    const size_t share = divideUp(bytes / width, ranks) * width;
    const size_t begin = std::min(rank * share, bytes);
    return Range{begin, std::min(share, bytes - begin)};
  };
  std::vector<const std::byte *> parts(ranks);
  return runBlocks(
      divideUp(count, most),
      [&](size_t block) {
        const auto [begin, bytes] = blockAt(block);
        const Range share = shareOf(own, bytes);
        const size_t end = share.begin + share.size;
        std::memcpy(slotOf(own, block), data + begin, share.begin);
        std::memcpy(slotOf(own, block) + end, data + begin + end, bytes - end);
        sent += bytes - share.size + (ranks - 1) * share.size;
      },
      [&](size_t block) {
        const auto [begin, bytes] = blockAt(block);
        const Range share = shareOf(own, bytes);
        std::byte *sums = data + begin + share.begin;
        for (size_t rank = 0; rank < ranks; ++rank)
          parts[rank] = rank == own ? sums : slotOf(rank, block) + share.begin;
        reduceParts(parts.data(), ranks, sums, share.size / width, type, kind);
        std::memcpy(slotOf(own, block) + share.begin, sums, share.size);
      },
      [&](size_t block) {
        const auto [begin, bytes] = blockAt(block);
        forOthers([&, begin = begin, bytes = bytes](size_t rank) {
          const Range share = shareOf(rank, bytes);
          std::memcpy(data + begin + share.begin,
                      slotOf(rank, block) + share.begin, share.size);
        });
      });
}

Status SharedCollectives::reduceScatter(std::byte *data, size_t count,
                                        DType type, Reduce kind) {
  const size_t width = elementBytes(type);
  const size_t most = kSlotBytes / width / ranks;
  const auto countOf = [&](size_t block) {
    return std::min(most, count - block * most);
  };
  std::vector<const std::byte *> parts(ranks);
  return runBlocks(
      divideUp(count, most),
      [&](size_t block) {
        const size_t bytes = countOf(block) * width;
        forOthers([&](size_t rank) {
          std::memcpy(slotOf(own, block) + rank * bytes,
                      data + (rank * count + block * most) * width, bytes);
        });
        sent += bytes * (ranks - 1);
      },
      [&](size_t block) {
        const size_t bytes = countOf(block) * width;
        std::byte *sums = data + (own * count + block * most) * width;
        for (size_t rank = 0; rank < ranks; ++rank)
          parts[rank] = rank == own ? sums : slotOf(rank, block) + own * bytes;
        reduceParts(parts.data(), ranks, sums, countOf(block), type, kind);
      });
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

Status SharedCollectives::allGather(std::byte *data, size_t bytes) {
  sent += bytes * (ranks - 1);
  const auto sizeAt = [&](size_t block) {
    return std::min(kSlotBytes, bytes - block * kSlotBytes);
  };
  return runBlocks(
      divideUp(bytes, kSlotBytes),
      [&](size_t block) {
        std::memcpy(slotOf(own, block), data + own * bytes + block * kSlotBytes,
                    sizeAt(block));
      },
      [&](size_t block) {
        forOthers([&](size_t rank) {
          std::memcpy(data + rank * bytes + block * kSlotBytes,
                      slotOf(rank, block), sizeAt(block));
        });
      });
}

Status SharedCollectives::broadcast(std::byte *data, size_t bytes, int root) {
  const bool isRoot = own == static_cast<size_t>(root);
  sent += isRoot ? bytes * (ranks - 1) : 0;
  const auto sizeAt = [&](size_t block) {
    return std::min(kSlotBytes, bytes - block * kSlotBytes);
  };
  return runBlocks(
      divideUp(bytes, kSlotBytes),
      [&](size_t block) {
        if (isRoot)
          std::memcpy(slotOf(own, block), data + block * kSlotBytes,
                      sizeAt(block));
      },
      [&](size_t block) {
        if (!isRoot)
          std::memcpy(data + block * kSlotBytes,
                      slotOf(static_cast<size_t>(root), block), sizeAt(block));
      });
}

Status SharedCollectives::barrier() {
  return runBlocks(
      1, [](size_t) {}, [](size_t) {});
}

} // namespace mpc::runtime
