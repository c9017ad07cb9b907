// Tests the order of elements in blocks, and the split of elements into terms.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Blocks.h"
#include "runtime/FloatBits.h"
#include "runtime/cpu/CPUFeatures.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

using namespace mpc::runtime;

namespace {

int64_t placeOf(BlockOrder order, int64_t row, int64_t column) {
  switch (order) {
  case BlockOrder::InRows:
    return row * 32 + column;
  case BlockOrder::Turned:
    return column * 32 + row;
  case BlockOrder::PairedRows:
    return (row / 2 * 32 + column) * 2 + row % 2;
  case BlockOrder::PairedColumns:
    return (column / 2 * 32 + row) * 2 + column % 2;
  }
  return -1;
}

constexpr BlockOrder kOrders[] = {BlockOrder::InRows, BlockOrder::Turned,
                                  BlockOrder::PairedRows,
                                  BlockOrder::PairedColumns};

TEST(Blocks, EveryOrderFromRowsFarApart) {
  if (!hostHasAVX512())
    GTEST_SKIP() << "the CPU has no AVX-512";
  constexpr int64_t kLeading = 37;
  std::vector<uint16_t> source(32 * kLeading), result(1024);
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<uint16_t>(i);
  for (BlockOrder order : kOrders) {
    packBlock(order, source.data(), kLeading, result.data());
    for (int64_t row = 0; row < 32; ++row)
      for (int64_t column = 0; column < 32; ++column)
        ASSERT_EQ(result[size_t(placeOf(order, row, column))],
                  source[size_t(row * kLeading + column)])
            << static_cast<int>(order) << ": " << row << ", " << column;
  }
}

/// Three bf16 numbers hold every digit of an f32 number of any exponent. Each
/// bf16 number is the nearest to the remainder of the earlier ones.
TEST(Blocks, TermsAddUpToTheElement) {
  constexpr int64_t kLeading = 35;
  std::mt19937 random(1);
  std::vector<float> source(32 * kLeading);
  for (float &value : source) {
    const int exponent = int(random() % 164) - 102;
    value = std::ldexp(1 + float(random() >> 9) * 0x1p-23f, exponent);
    if (random() % 2)
      value = -value;
  }
  source[3] = 0.0f;
  source[4] = kLeastSplit;
  source[5] = -kGreatestSplit;
  std::vector<uint16_t> result(3 * 1024);
  for (BlockOrder order : kOrders) {
    ASSERT_TRUE(splitBlock(order, source.data(), kLeading, 3, result.data()));
    for (int64_t row = 0; row < 32; ++row)
      for (int64_t column = 0; column < 32; ++column) {
        const float value = source[size_t(row * kLeading + column)];
        const auto place = size_t(placeOf(order, row, column));
        float rest = value;
        for (size_t term = 0; term < 3; ++term) {
          const float number = bf16ToFloat(result[term * 1024 + place]);
          ASSERT_LE(std::fabs(rest - number), std::fabs(rest) * 0x1p-8f);
          rest -= number;
        }
        ASSERT_EQ(rest, 0.0f) << value;
      }
  }
}

TEST(Blocks, TwoTermsHoldAHalf) {
  std::vector<float> source(1024);
  std::vector<uint16_t> result(2 * 1024);
  for (int64_t first = 0; first < 0x7c00; first += 1024) {
    for (size_t i = 0; i < 1024; ++i)
      source[i] = f16ToFloat(uint16_t(first + int64_t(i)));
    ASSERT_TRUE(
        splitBlock(BlockOrder::InRows, source.data(), 32, 2, result.data()));
    for (size_t i = 0; i < 1024; ++i)
      ASSERT_EQ(bf16ToFloat(result[i]) + bf16ToFloat(result[1024 + i]),
                source[i]);
  }
}

TEST(Blocks, SaysWhichElementsHaveNoTerms) {
  std::vector<uint16_t> result(3 * 1024);
  const float infinity = std::numeric_limits<float>::infinity();
  for (float value :
       {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
        1.01f * kGreatestSplit, -0.99f * kLeastSplit, 1e-40f}) {
    std::vector<float> source(1024, 1.5f);
    EXPECT_TRUE(
        splitBlock(BlockOrder::Turned, source.data(), 32, 3, result.data()));
    source[517] = value;
    EXPECT_FALSE(
        splitBlock(BlockOrder::Turned, source.data(), 32, 3, result.data()))
        << value;
  }
}

} // namespace
