// Tests the search for indices out of their axis's range.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Indices.h"

#include <gtest/gtest.h>
#include <numeric>

namespace mpc::runtime {
namespace {

/// The numbers from 0, as 2 x 3 x 4.
std::vector<int64_t> count() {
  std::vector<int64_t> numbers(24);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// The first number of count() in the box that is not in [-size, size), or -1
/// if there is none.
int64_t findFirst(const IndexBox &box) {
  const std::vector<int64_t> numbers = count();
  const auto stray = findStrayIndex(DType::I64, numbers.data(), {2, 3, 4}, box);
  if (!stray)
    return -1;
  EXPECT_EQ(stray->position, stray->index);
  return stray->index;
}

TEST(Indices, AreLookedAtWithinTheirBoxOnly) {
  EXPECT_EQ(findFirst({{0, 0, 0}, {2, 3, 4}, 24}), -1);
  EXPECT_EQ(findFirst({{0, 0, 0}, {2, 3, 4}, 23}), 23);
  EXPECT_EQ(findFirst({{0, 0, 0}, {2, 3, 4}, 5}), 5);
  // Boxes of rows, of columns, and of part of a row.
  EXPECT_EQ(findFirst({{0, 1, 0}, {2, 2, 4}, 8}), 16);
  EXPECT_EQ(findFirst({{0, 0, 1}, {2, 3, 2}, 6}), 9);
  EXPECT_EQ(findFirst({{1, 1, 1}, {2, 2, 3}, 18}), 18);
  EXPECT_EQ(findFirst({{1, 1, 1}, {2, 2, 3}, 19}), -1);
  EXPECT_EQ(findFirst({{1, 1, 1}, {2, 1, 3}, 0}), -1);
}

TEST(Indices, CountFromTheEndWhereNegative) {
  const std::vector<int32_t> numbers{-3, 2, -4};
  const auto find = [&](int64_t size) {
    return findStrayIndex(DType::I32, numbers.data(), {3}, {{0}, {3}, size});
  };
  EXPECT_FALSE(find(4));
  ASSERT_TRUE(find(3));
  EXPECT_EQ(find(3)->position, 2);
  EXPECT_EQ(find(3)->index, -4);
}

TEST(Indices, LabelsDoNotCountFromTheEnd) {
  const std::vector<int64_t> numbers{2, -100, -1};
  IndexBox box{{0}, {3}, 3, /*isLabel=*/true, /*ignored=*/-100};
  const auto check = [&] {
    return checkIndices(DType::I64, numbers.data(), {3}, {box}).message();
  };
  EXPECT_EQ(check(), "element 2: label -1 is not in [0, 3) and not the ignored "
                     "-100");
  box.ignored.reset();
  EXPECT_EQ(check(), "element 1: label -100 is not in [0, 3)");
}

/// The range of an index into an axis of `size`.
static IndexRange of(int64_t size) { return {-size, size}; }
constexpr IndexRange kAll;

TEST(Indices, OfASampleHaveTheRangesOfAllItsBoxes) {
  const std::vector<IndexBox> columns{{{0, 0}, {8, 1}, 20},
                                      {{0, 2}, {8, 4}, 9}};
  EXPECT_EQ(sampleRanges(columns, {8, 4}, 0),
            (std::vector<IndexRange>{of(20), kAll, of(9), of(9)}));
  const std::vector<IndexBox> tables{{{0, 0, 0}, {1, 8, 2}, 20},
                                     {{0, 0, 1}, {2, 8, 2}, 30}};
  EXPECT_EQ(sampleRanges(tables, {2, 8, 2}, 1),
            (std::vector<IndexRange>{of(20), of(20), kAll, of(30)}));
}

TEST(Indices, ALabelThatIsIgnoredIsOneToAllThatReadIt) {
  const IndexBox label{{0}, {4}, 5, /*isLabel=*/true, /*ignored=*/-1};
  const IndexBox other{{0}, {4}, 5, /*isLabel=*/true};
  EXPECT_EQ(sampleRanges({label, {{0}, {4}, 8}}, {4}, 0),
            (std::vector<IndexRange>{{0, 5, -1}}));
  EXPECT_EQ(sampleRanges({label, other}, {4}, 0),
            (std::vector<IndexRange>{{0, 5}}));
}

TEST(Indices, OfSomeSamplesOfABatchAreNotThoseOfEverySample) {
  EXPECT_EQ(sampleRanges({{{0, 0}, {4, 2}, 20}}, {8, 2}, 0),
            (std::vector<IndexRange>{kAll, kAll}));
  EXPECT_EQ(sampleRanges({{{0, 0}, {4, 1}, 20}}, {4, 2}, -1),
            (std::vector<IndexRange>{of(20), kAll, of(20), kAll, of(20), kAll,
                                     of(20), kAll}));
}

} // namespace
} // namespace mpc::runtime
