// Tests that a split keeps the classes' proportions.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Split.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

namespace mpc::runtime::train {
namespace {

/// 50 of class 0, 30 of 1, 15 of 2 and 5 of 3.
std::vector<int64_t> unequalClasses() {
  std::vector<int64_t> classes;
  const int64_t counts[] = {50, 30, 15, 5};
  for (int64_t label = 0; label < 4; ++label)
    classes.insert(classes.end(), size_t(counts[label]), label);
  return classes;
}

std::map<int64_t, int64_t> countHeld(const std::vector<bool> &isHeld,
                                     const std::vector<int64_t> &classes) {
  std::map<int64_t, int64_t> counts;
  for (size_t i = 0; i < isHeld.size(); ++i)
    counts[classes[i]] += isHeld[i];
  return counts;
}

TEST(Split, EveryClassGivesItsShare) {
  const std::vector<int64_t> classes = unequalClasses();
  for (uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(countHeld(chooseHeld(100, 20, seed, classes), classes),
              (std::map<int64_t, int64_t>{{0, 10}, {1, 6}, {2, 3}, {3, 1}}));
}

TEST(Split, TheLargestRemaindersGiveOneMore) {
  // The exact shares of 10 samples are 5, 3, 1.5 and 0.5. One of the last two
  // classes gets one more.
  const std::vector<int64_t> classes = unequalClasses();
  std::map<int64_t, int64_t> ofLast;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    auto counts = countHeld(chooseHeld(100, 10, seed, classes), classes);
    EXPECT_EQ(counts[0], 5);
    EXPECT_EQ(counts[1], 3);
    EXPECT_EQ(counts[2] + counts[3], 2);
    ++ofLast[counts[3]];
  }
  // The choice is random.
  EXPECT_GT(ofLast[0], 0);
  EXPECT_GT(ofLast[1], 0);
}

TEST(Split, WithoutClassesAllAreAlike) {
  const std::vector<bool> isHeld = chooseHeld(100, 20, 1);
  EXPECT_EQ(std::count(isHeld.begin(), isHeld.end(), true), 20);
  EXPECT_EQ(isHeld, chooseHeld(100, 20, 1));
  EXPECT_NE(isHeld, chooseHeld(100, 20, 2));
}

TEST(Split, ChoosesOtherSamplesOfAClassByTheSeed) {
  const std::vector<int64_t> classes = unequalClasses();
  EXPECT_EQ(chooseHeld(100, 20, 3, classes), chooseHeld(100, 20, 3, classes));
  EXPECT_NE(chooseHeld(100, 20, 3, classes), chooseHeld(100, 20, 4, classes));
}

} // namespace
} // namespace mpc::runtime::train
