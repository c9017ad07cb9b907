// Tests the figures of a whole run.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunStatistics.h"

#include <gtest/gtest.h>
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
  const size_t before = peakMemory();
  constexpr size_t kBytes = size_t(64) << 20;
  const std::vector<char> touched(kBytes, 1);
  EXPECT_EQ(touched.back(), 1);
  EXPECT_GE(peakMemory(), before + kBytes / 2);
}

} // namespace
} // namespace mpc::runtime::train
