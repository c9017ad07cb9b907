// Tests the figures of a whole run.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunStatistics.h"

#include <cstdio>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace mpc::runtime::train {
namespace {

TEST(RunStatistics, MediansLieInTheMiddle) {
  StepTimes times;
  EXPECT_EQ(times.median(), 0);
  times.add(5);
  EXPECT_EQ(times.median(), 5);
  times.add(1);
  EXPECT_EQ(times.median(), 3);
  times.add(100);
  EXPECT_EQ(times.median(), 5);
}

// A long run keeps every second, fourth, ... step: the median stays close.
TEST(RunStatistics, LongRunsKeepSomeSteps) {
  StepTimes times;
  constexpr int kSteps = 100000;
  for (int i = 0; i < kSteps; ++i)
    times.add(i);
  EXPECT_NEAR(times.median(), kSteps / 2, 16);
}

TEST(RunStatistics, PeakMemoryCountsTouchedPages) {
  resetPeakMemory();
  const size_t before = PeakMemory().bytes();
  constexpr size_t kBytes = size_t(64) << 20;
  const std::vector<char> touched(kBytes, 1);
  EXPECT_EQ(touched.back(), 1);
  EXPECT_GE(PeakMemory().bytes(), before + kBytes / 2);
}

// Mapped data may be larger than memory: its pages do not count.
TEST(RunStatistics, PeakMemoryLeavesOutPagesOfFiles) {
  constexpr size_t kBytes = size_t(64) << 20;
  std::FILE *file = std::tmpfile();
  ASSERT_TRUE(file && ftruncate(fileno(file), off_t(kBytes)) == 0);
  resetPeakMemory();
  PeakMemory memory;
  const size_t before = memory.bytes();
  void *mapped = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, fileno(file), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto *bytes = static_cast<const volatile char *>(mapped);
  int sum = 0;
  for (size_t i = 0; i < kBytes; i += 4096)
    sum += bytes[i];
  EXPECT_EQ(sum, 0);
  EXPECT_LE(memory.bytes(), before + kBytes / 2);
  munmap(mapped, kBytes);
  std::fclose(file);
}

} // namespace
} // namespace mpc::runtime::train
