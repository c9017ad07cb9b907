// Tests that shuffling is reproducible and fair, and differs between streams.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/Permutation.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

namespace mpc::runtime::train {
namespace {

TEST(Permutation, IsTheSameOnEveryMachine) {
  // Checkpoints depend on these orders, which must never change.
  EXPECT_EQ(permutation(10, 42, Stream::Epoch, 0),
            (std::vector<int64_t>{7, 3, 9, 0, 1, 2, 5, 8, 6, 4}));
  EXPECT_EQ(permutation(10, 42, Stream::Epoch, 1),
            (std::vector<int64_t>{0, 6, 8, 7, 9, 1, 5, 4, 2, 3}));
}

TEST(Permutation, HasEveryIndexOnce) {
  std::vector<int64_t> order = permutation(1000, 1, Stream::Epoch, 3);
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 1000; ++i)
    EXPECT_EQ(order[size_t(i)], i);
  EXPECT_TRUE(permutation(0, 1, Stream::Epoch, 0).empty());
}

TEST(Permutation, DiffersBySeedStreamAndNumber) {
  const std::vector<int64_t> base = permutation(100, 1, Stream::Epoch, 0);
  EXPECT_NE(base, permutation(100, 2, Stream::Epoch, 0));
  EXPECT_NE(base, permutation(100, 1, Stream::Split, 0));
  EXPECT_NE(base, permutation(100, 1, Stream::Epoch, 1));
}

TEST(Permutation, GivesEachOrderEquallyOften) {
  std::map<std::vector<int64_t>, int> counts;
  const int trials = 24000;
  for (int seed = 0; seed < trials; ++seed)
    ++counts[permutation(4, uint64_t(seed), Stream::Epoch, 0)];
  ASSERT_EQ(counts.size(), 24u);
  // Chi-squared with 23 degrees of freedom: above 49.7 once in a thousand.
  double chiSquared = 0;
  for (const auto &[order, count] : counts)
    chiSquared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chiSquared, 49.7);
}

} // namespace
} // namespace mpc::runtime::train
