// Tests areas under ROC curves.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/AreaUnderCurve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace mpc::runtime::train {
namespace {

std::optional<double>
areaOf(const std::vector<std::pair<double, bool>> &scores) {
  AreaUnderCurve area;
  for (const auto &[score, isPositive] : scores)
    area.add(score, isPositive);
  return area.value();
}

TEST(AreaUnderCurve, IsTheShareOfPairsInOrder) {
  EXPECT_EQ(areaOf({{0.1, false}, {0.4, false}, {0.35, true}, {0.8, true}}),
            0.75);
  EXPECT_EQ(areaOf({{3, true}, {2, true}, {1, false}}), 1.0);
  EXPECT_EQ(areaOf({{1, true}, {2, false}}), 0.0);
}

TEST(AreaUnderCurve, EqualScoresCountHalf) {
  EXPECT_EQ(areaOf({{1, true}, {1, false}, {1, false}}), 0.5);
  EXPECT_EQ(areaOf({{1, true}, {1, false}, {0, false}, {2, true}}), 0.875);
}

TEST(AreaUnderCurve, NeedsBothKinds) {
  EXPECT_EQ(areaOf({}), std::nullopt);
  EXPECT_EQ(areaOf({{1, true}}), std::nullopt);
  EXPECT_EQ(areaOf({{1, false}, {2, false}}), std::nullopt);
}

TEST(AreaUnderCurve, OfNaNIsNaN) {
  EXPECT_TRUE(std::isnan(*areaOf({{NAN, true}, {1, false}})));
}

} // namespace
} // namespace mpc::runtime::train
