// Tests the collectives that mpc builds from a library's exchanges of bytes,
// over threads.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/FloatBits.h"
#include "test/runtime/distributed/ThreadCommunicator.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mpc::runtime;

namespace {

/// Returns values whose sum depends on the order of the additions.
std::vector<float> randomValues(size_t count, int rank) {
  std::mt19937 engine(static_cast<unsigned>(rank) + 1);
  std::vector<float> values(count);
  for (float &value : values) {
    const unsigned bits = static_cast<unsigned>(engine());
    value = std::ldexp(static_cast<float>(bits >> 8), int(bits & 15) - 24);
  }
  return values;
}

/// Reduces `values(rank)` over `ranks` ranks, and returns each rank's result.
template <typename T, typename Values>
std::vector<std::vector<T>> reduceOver(int ranks, DType type, Reduce kind,
                                       Values values) {
  std::vector<std::vector<T>> results(static_cast<size_t>(ranks));
  runRanks(ranks, [&](Communicator &communicator) {
    std::vector<T> &own = results[static_cast<size_t>(communicator.rank())];
    own = values(communicator.rank());
    const Status status =
        communicator.allReduce(own.data(), own.size(), type, kind);
    EXPECT_TRUE(status.ok()) << status.message();
  });
  return results;
}

} // namespace

TEST(HostCommunicator, sumsInTheOrderOfRanks) {
  // Fewer elements than ranks, a small message, and one that needs padding and
  // several blocks.
  for (int ranks : {2, 3, 4})
    for (size_t count : {size_t(1), size_t(1000), size_t(4500001)}) {
      const auto results =
          reduceOver<float>(ranks, DType::F32, Reduce::Mean, [&](int rank) {
            return randomValues(count, rank);
          });
      std::vector<float> expected = randomValues(count, 0);
      for (int rank = 1; rank < ranks; ++rank) {
        const std::vector<float> part = randomValues(count, rank);
        for (size_t i = 0; i < count; ++i)
          expected[i] += part[i];
      }
      for (float &value : expected)
        value /= static_cast<float>(ranks);
      for (const std::vector<float> &result : results)
        EXPECT_EQ(result, expected) << ranks << " ranks, " << count;
    }
}

TEST(HostCommunicator, meanOfHalvesDoesNotOverflow) {
  const std::vector<std::vector<uint16_t>> f16 =
      reduceOver<uint16_t>(4, DType::F16, Reduce::Mean, [](int) {
        return std::vector<uint16_t>(20000, floatToF16(65504));
      });
  for (const std::vector<uint16_t> &result : f16)
    EXPECT_EQ(result, std::vector<uint16_t>(20000, floatToF16(65504)));
  const std::vector<std::vector<uint16_t>> bf16 =
      reduceOver<uint16_t>(2, DType::BF16, Reduce::Mean, [](int) {
        return std::vector<uint16_t>(3, floatToBF16(3e38f));
      });
  for (const std::vector<uint16_t> &result : bf16)
    EXPECT_EQ(result, std::vector<uint16_t>(3, floatToBF16(3e38f)));
}

TEST(HostCommunicator, roundsAHalfOnce) {
  // 1 + 2^-11 + 2^-11 is 1 + 2^-10, a value of f16. Rounding after each
  // addition would give 1.
  const auto results =
      reduceOver<uint16_t>(3, DType::F16, Reduce::Sum, [](int rank) {
        return std::vector<uint16_t>{
            floatToF16(rank == 0 ? 1.0f : std::ldexp(1.0f, -11))};
      });
  for (const std::vector<uint16_t> &result : results)
    EXPECT_EQ(f16ToFloat(result[0]), 1 + std::ldexp(1.0f, -10));
}

TEST(HostCommunicator, aNonFiniteElementReachesAllRanks) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (Reduce kind : {Reduce::Mean, Reduce::Max})
    for (int bad : {0, 1, 2}) {
      const auto results =
          reduceOver<float>(3, DType::F32, kind, [&](int rank) {
            return std::vector<float>{rank == bad ? nan : 1.0f};
          });
      for (const std::vector<float> &result : results)
        EXPECT_TRUE(std::isnan(result[0]));
    }
}

TEST(HostCommunicator, integers) {
  const auto largest =
      reduceOver<int64_t>(3, DType::I64, Reduce::Max, [](int rank) {
        return std::vector<int64_t>{-rank - 1, 7 * rank};
      });
  for (const std::vector<int64_t> &result : largest)
    EXPECT_EQ(result, (std::vector<int64_t>{-1, 14}));
  const auto sums =
      reduceOver<int64_t>(3, DType::I64, Reduce::Sum, [](int rank) {
        return std::vector<int64_t>{int64_t(1) << 60, rank};
      });
  for (const std::vector<int64_t> &result : sums)
    EXPECT_EQ(result, (std::vector<int64_t>{int64_t(3) << 60, 3}));
  runRanks(2, [](Communicator &communicator) {
    int64_t value = 0;
    const Status status =
        communicator.allReduce(&value, 1, DType::I64, Reduce::Mean);
    EXPECT_EQ(status.getCode(), StatusCode::Internal);
  });
}

TEST(HostCommunicator, reduceScatterAndAllGatherMakeAnAllReduce) {
  for (size_t count : {size_t(3), size_t(2000000)}) {
    const auto whole =
        reduceOver<float>(3, DType::F32, Reduce::Mean, [&](int rank) {
          return randomValues(3 * count, rank);
        });
    runRanks(3, [&](Communicator &communicator) {
      std::vector<float> own = randomValues(3 * count, communicator.rank());
      ASSERT_TRUE(
          communicator
              .reduceScatter(own.data(), count, DType::F32, Reduce::Mean)
              .ok());
      ASSERT_TRUE(
          communicator.allGather(own.data(), count * sizeof(float)).ok());
      EXPECT_EQ(own, whole[0]);
    });
  }
}

TEST(HostCommunicator, broadcast) {
  for (int root : {0, 2})
    runRanks(3, [&](Communicator &communicator) {
      std::vector<int> data(10, communicator.rank());
      ASSERT_TRUE(
          communicator.broadcast(data.data(), data.size() * sizeof(int), root)
              .ok());
      EXPECT_EQ(data, std::vector<int>(10, root));
    });
}

TEST(HostCommunicator, sendsTheBytesOfARing) {
  runRanks(4, [](Communicator &communicator) {
    std::vector<float> data(1000000);
    ASSERT_TRUE(
        communicator.allReduce(data.data(), 1000000, DType::F32, Reduce::Sum)
            .ok());
    EXPECT_EQ(communicator.bytesSent(), 2u * 3 * 1000000);
  });
}

TEST(HostCommunicator, abortEndsTheCallsOfOtherRanks) {
  runRanks(3, [](Communicator &communicator) {
    if (communicator.rank() == 1)
      return communicator.abort(Status(StatusCode::Numeric, "loss is nan"));
    const Status status = communicator.barrier();
    EXPECT_EQ(status.getCode(), StatusCode::Rank);
    EXPECT_NE(status.message().find("loss is nan"), std::string::npos);
  });
}
