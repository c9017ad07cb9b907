// Tests numbers formatted for people.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/Text.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mpc::runtime::train {
namespace {

TEST(Text, CountsWithTheirNoun) {
  EXPECT_EQ(counted(0, "sample"), "0 samples");
  EXPECT_EQ(counted(1, "sample"), "1 sample");
  EXPECT_EQ(counted(1437, "sample"), "1437 samples");
}

TEST(Text, LossScalesAreWholeOrPowersOfTwo) {
  EXPECT_EQ(formatScale(65536), "65536");
  EXPECT_EQ(formatScale(1e6), "1000000");
  EXPECT_EQ(formatScale(1), "1");
  EXPECT_EQ(formatScale(std::ldexp(1, -14)), "2^-14");
  EXPECT_EQ(formatScale(std::ldexp(1, 40)), "2^40");
  EXPECT_EQ(formatScale(0.3), "0.3");
  EXPECT_EQ(formatScale(INFINITY), "inf");
}

TEST(Text, FiguresHaveSixDigitsAndNaNNoSign) {
  EXPECT_EQ(formatFigure(2.302585), "2.30259");
  EXPECT_EQ(formatFigure(-INFINITY), "-inf");
  EXPECT_EQ(formatFigure(std::copysign(NAN, -1.0)), "nan");
}

TEST(Text, MillisecondsHaveThreeDigits) {
  EXPECT_EQ(formatMilliseconds(0.0491), "0.049");
  EXPECT_EQ(formatMilliseconds(0.493), "0.493");
  EXPECT_EQ(formatMilliseconds(1.234), "1.23");
  EXPECT_EQ(formatMilliseconds(12.34), "12.3");
  EXPECT_EQ(formatMilliseconds(1060), "1060");
}

TEST(Text, DurationsAreAsClocksShowThem) {
  EXPECT_EQ(formatDuration(0.42), "0.4 s");
  EXPECT_EQ(formatDuration(14), "0:14");
  EXPECT_EQ(formatDuration(59.9), "1:00");
  EXPECT_EQ(formatDuration(3723), "1:02:03");
  EXPECT_EQ(formatDuration(2 * 86400 + 3 * 3600 + 4 * 60), "2 d 3:04");
  EXPECT_EQ(formatDuration(NAN), "");
  EXPECT_EQ(formatDuration(1e18), "");
}

} // namespace
} // namespace mpc::runtime::train
