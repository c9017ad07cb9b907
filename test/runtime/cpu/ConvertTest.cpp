// Tests that array conversions have the bits of scalar ones, with all
// instruction sets.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Convert.h"
#include "runtime/FloatBits.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mpc::runtime;

namespace {

TEST(Convert, WidensEveryValueAsTheScalarCodeDoes) {
  std::vector<uint16_t> source(65536);
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<uint16_t>(i);
  std::vector<float> f16(source.size()), bf16(source.size());
  widen(DType::F16, source.data(), f16.data(), 65536);
  widen(DType::BF16, source.data(), bf16.data(), 65536);
  for (size_t i = 0; i < source.size(); ++i) {
    ASSERT_EQ(bitsOf(f16[i]), bitsOf(f16ToFloat(source[i]))) << i;
    ASSERT_EQ(bitsOf(bf16[i]), bitsOf(bf16ToFloat(source[i]))) << i;
  }
}

TEST(Convert, ScalesEveryValue) {
  std::vector<float> values(1003); // odd: covers the remainder
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i) - 500;
  scale(values.data(), 1002, 0.3f);
  for (size_t i = 0; i < 1002; ++i)
    ASSERT_EQ(values[i], (static_cast<float>(i) - 500) * 0.3f) << i;
  EXPECT_EQ(values.back(), 502);
}

TEST(Convert, NarrowsAsTheScalarCodeDoes) {
  std::mt19937 random(1);
  std::vector<float> source(100003); // odd: covers the remainder
  for (float &value : source)
    value = floatOf(random());
  for (size_t i = 0; i < source.size(); i += 3)
    source[i] = std::ldexp(static_cast<float>(random()),
                           static_cast<int>(random() % 60) - 60);
  std::vector<uint16_t> f16(source.size()), bf16(source.size());
  auto count = static_cast<int64_t>(source.size());
  narrow(DType::F16, source.data(), f16.data(), count);
  narrow(DType::BF16, source.data(), bf16.data(), count);
  for (size_t i = 0; i < source.size(); ++i) {
    ASSERT_EQ(f16[i], floatToF16(source[i])) << bitsOf(source[i]);
    ASSERT_EQ(bf16[i], floatToBF16(source[i])) << bitsOf(source[i]);
  }
}

} // namespace
