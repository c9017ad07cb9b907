// Tests work shared by threads, with batches large enough for several.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/support/Threads.h"

#include <atomic>
#include <cstring>
#include <new>

namespace mpc::runtime::train {
namespace {

TEST(Threads, CallForEachNumberOnce) {
  for (int64_t threads : {1, 3, 64}) {
    std::vector<std::atomic<int>> calls(1000);
    ASSERT_TRUE(onThreads(1000, threads, [&](int64_t i) {
                  ++calls[size_t(i)];
                  return Status();
                }).ok());
    for (const std::atomic<int> &count : calls)
      EXPECT_EQ(count, 1);
  }
  EXPECT_TRUE(
      onThreads(0, 4, [](int64_t) { return Status(StatusCode::IO, ""); }).ok());
}

TEST(Threads, TellTheFailureOfTheLeastNumber) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const Status status = onThreads(100, 4, [](int64_t i) {
      return i < 17 ? Status()
                    : Status(StatusCode::InvalidInput, std::to_string(i));
    });
    EXPECT_EQ(status.message(), "17");
  }
}

TEST(Threads, RunOutOfMemoryWithoutEndingTheProcess) {
  const Status status =
      onThreads(10, 4, [](int64_t) -> Status { throw std::bad_alloc(); });
  expectFailure(status, StatusCode::IO, "out of memory");
}

TEST(Threads, ShareRowsWithoutGapsOrOverlaps) {
  for (int64_t rows : {0, 1, 7, 33, 4097}) {
    std::vector<std::atomic<int>> calls(size_t(rows) + 1);
    ASSERT_TRUE(onRows(rows, 1 << 20, [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i)
                    ++calls[size_t(i)];
                  return Status();
                }).ok());
    for (int64_t i = 0; i < rows; ++i)
      EXPECT_EQ(calls[size_t(i)], 1);
  }
}

/// Samples are on the second axis, and integers become floats. The batch is
/// large enough for several threads.
TEST(Threads, GatherLargeBatches) {
  constexpr int64_t kOuter = 3, kSamples = 7, kBatch = 5, kRow = 100003;
  std::vector<int32_t> values(kOuter * kSamples * kRow);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = int32_t(i % 1000003);
  Port port{"x", Role::Data, DType::F32, {kOuter, kBatch, kRow}};
  port.batchAxis = 1;
  const FunctionPorts ports{{port}, {}};
  StatusOr<Dataset> data = Dataset::create(
      {makeArray("x", ElementType::I32, {kOuter, kSamples, kRow}, values)},
      ports);
  ASSERT_TRUE(data.ok()) << data.status().message();
  const int64_t positions[kBatch] = {6, 0, 3, 3, 1};
  StatusOr<GatheredBatch> batch = data->gather(ports, positions);
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  const auto *gathered =
      reinterpret_cast<const float *>(batch->front().bytes.get());
  int64_t wrong = 0;
  for (int64_t o = 0; o < kOuter; ++o)
    for (int64_t i = 0; i < kBatch; ++i)
      for (int64_t e = 0; e < kRow; ++e)
        wrong +=
            *gathered++ !=
            float(values[size_t((o * kSamples + positions[i]) * kRow + e)]);
  EXPECT_EQ(wrong, 0);
}

} // namespace
} // namespace mpc::runtime::train
