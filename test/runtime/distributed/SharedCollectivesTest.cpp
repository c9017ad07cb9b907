// Tests collectives through shared memory, over threads that each map it.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/SharedCollectives.h"
#include "runtime/distributed/Reduction.h"

#include <cmath>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace mpc::runtime;
using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::unique_ptr<SharedBlocks>> openAll(int size) {
  std::vector<std::unique_ptr<SharedBlocks>> all;
  StatusOr<std::unique_ptr<SharedBlocks>> first = SharedBlocks::create(size);
  EXPECT_TRUE(first.ok()) << first.status().message();
  all.push_back(std::move(*first));
  for (int rank = 1; rank < size; ++rank) {
    StatusOr<std::unique_ptr<SharedBlocks>> next =
        SharedBlocks::open(all.front()->name(), rank, size);
    EXPECT_TRUE(next.ok()) << next.status().message();
    all.push_back(std::move(*next));
  }
  return all;
}

Status waitWithoutLimit(SharedCollectives::Time, int) { return Status(); }

/// Calls `body(collectives, rank)` on a thread for each rank.
template <typename Body>
void runSharing(int size, Body body) {
  auto blocks = openAll(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      SharedCollectives ranks(std::move(blocks[static_cast<size_t>(rank)]),
                              rank, size, waitWithoutLimit);
      body(ranks, rank);
    });
  for (std::thread &thread : threads)
    thread.join();
}

std::byte *bytesOf(std::vector<float> &values) {
  return reinterpret_cast<std::byte *>(values.data());
}

/// Returns values whose sum depends on the order of the additions.
std::vector<float> valuesOf(size_t count, int rank) {
  std::mt19937 engine(static_cast<unsigned>(rank) + 1);
  std::vector<float> values(count);
  for (float &value : values) {
    const unsigned bits = static_cast<unsigned>(engine());
    value = std::ldexp(static_cast<float>(bits >> 8), int(bits & 15) - 24);
  }
  return values;
}

/// The mean, added in the order of the ranks.
std::vector<float> meanOf(int ranks, size_t count) {
  std::vector<float> sums = valuesOf(count, 0);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<float> part = valuesOf(count, rank);
    for (size_t i = 0; i < count; ++i)
      sums[i] += part[i];
  }
  for (float &sum : sums)
    sum /= static_cast<float>(ranks);
  return sums;
}

} // namespace

// Sizes: fewer elements than ranks, a small message, a block, and more blocks
// than slots with a rest. The calls follow one another without a barrier.
TEST(SharedCollectives, sumsInTheOrderOfRanks) {
  const size_t block = SharedBlocks::kSlotBytes / sizeof(float);
  for (int size : {2, 3, 4}) {
    const std::vector<size_t> counts = {1,         1000,  block,
                                        block + 1, 10001, 11 * block + 7};
    std::vector<std::vector<float>> expected;
    for (size_t count : counts)
      expected.push_back(meanOf(size, count));
    runSharing(size, [&](SharedCollectives &ranks, int rank) {
      for (int run = 0; run < 2; ++run)
        for (size_t i = 0; i < counts.size(); ++i) {
          std::vector<float> own = valuesOf(counts[i], rank);
          ASSERT_TRUE(
              ranks.allReduce(bytesOf(own), counts[i], DType::F32, Reduce::Mean)
                  .ok());
          ASSERT_EQ(own, expected[i]) << size << " ranks, " << counts[i];
        }
    });
  }
}

TEST(SharedCollectives, reduceScatterAndAllGatherMakeAnAllReduce) {
  for (size_t count : {size_t(3), size_t(500001)}) {
    const std::vector<float> expected = meanOf(3, 3 * count);
    runSharing(3, [&](SharedCollectives &ranks, int rank) {
      std::vector<float> own = valuesOf(3 * count, rank);
      ASSERT_TRUE(
          ranks.reduceScatter(bytesOf(own), count, DType::F32, Reduce::Mean)
              .ok());
      ASSERT_TRUE(ranks.allGather(bytesOf(own), count * sizeof(float)).ok());
      EXPECT_EQ(own, expected);
    });
  }
}

TEST(SharedCollectives, broadcast) {
  for (int root : {0, 2})
    runSharing(3, [&](SharedCollectives &ranks, int rank) {
      std::vector<float> data = valuesOf(300000, rank);
      ASSERT_TRUE(
          ranks.broadcast(bytesOf(data), data.size() * sizeof(float), root)
              .ok());
      EXPECT_EQ(data, valuesOf(300000, root));
    });
}

TEST(SharedCollectives, barrierWaitsForTheLastRank) {
  std::atomic<int> come = 0;
  runSharing(3, [&](SharedCollectives &ranks, int rank) {
    std::this_thread::sleep_for(milliseconds(20 * rank));
    ++come;
    ASSERT_TRUE(ranks.barrier().ok());
    EXPECT_EQ(come, 3);
  });
}

TEST(SharedCollectives, sendsTheBytesOfARing) {
  runSharing(4, [](SharedCollectives &ranks, int) {
    std::vector<float> data(1 << 20);
    ASSERT_TRUE(
        ranks.allReduce(bytesOf(data), data.size(), DType::F32, Reduce::Sum)
            .ok());
    EXPECT_EQ(ranks.bytesSent(), 2u * 3 * (1 << 20));
  });
}

TEST(SharedCollectives, aFailedCheckEndsTheWait) {
  auto blocks = openAll(2);
  const auto wait = [](SharedCollectives::Time start, int awaited) {
    if (Clock::now() - start < milliseconds(50))
      return Status();
    return Status(StatusCode::Rank, "lost " + std::to_string(awaited));
  };
  SharedCollectives ranks(std::move(blocks[0]), 0, 2, wait);
  const Status status = ranks.barrier();
  EXPECT_EQ(status.getCode(), StatusCode::Rank);
  EXPECT_EQ(status.message(), "lost 1");
}

TEST(SharedBlocks, opensNoOtherMemory) {
  auto blocks = SharedBlocks::create(2);
  ASSERT_TRUE(blocks.ok());
  const SharedBlocks::Name name = (*blocks)->name();
  EXPECT_TRUE(SharedBlocks::open(name, 1, 2).ok());
  // The memory of another run, of other ranks, another file, no process.
  SharedBlocks::Name other = name;
  other.token[1] ^= 1;
  EXPECT_FALSE(SharedBlocks::open(other, 1, 2).ok());
  EXPECT_FALSE(SharedBlocks::open(name, 1, 3).ok());
  const int file = open("/dev/null", O_RDWR);
  other = name;
  other.descriptor = file;
  EXPECT_FALSE(SharedBlocks::open(other, 1, 2).ok());
  close(file);
  (*blocks)->closeName();
  EXPECT_FALSE(SharedBlocks::open(name, 1, 2).ok());
}
