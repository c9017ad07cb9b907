// Tests sums of the parts of ranks against plain loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/Reduction.h"
#include "runtime/FloatBits.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace mpc::runtime;

// All f16 values, NaNs included, as the instructions of the CPU and the loop
// for the rest convert them: the count is no multiple of a vector.
TEST(Reduction, halvesHaveTheBitsOfPlainConversions) {
  constexpr size_t kCount = 65536 + 5;
  std::vector<uint16_t> first(kCount), second(kCount), result(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    first[i] = static_cast<uint16_t>(i);
    second[i] = static_cast<uint16_t>(i * 40503u);
  }
  const std::byte *parts[] = {
      reinterpret_cast<const std::byte *>(first.data()),
      reinterpret_cast<const std::byte *>(second.data())};
  reduceParts(parts, 2, result.data(), kCount, DType::F16, Reduce::Mean);
  for (size_t i = 0; i < kCount; ++i) {
    const float sum =
        f16ToFloat(first[i]) / 2.0f + f16ToFloat(second[i]) / 2.0f;
    // A sum of two NaNs may keep either.
    if (std::isnan(sum))
      ASSERT_TRUE(std::isnan(f16ToFloat(result[i]))) << i;
    else
      ASSERT_EQ(result[i], floatToF16(sum)) << i;
  }
}

// A mean of three divides, and a mean of a power of two multiplies. Both have
// the bits of a division, also of subnormal numbers.
TEST(Reduction, meansAreQuotients) {
  for (size_t count : {2u, 3u, 4u, 8u}) {
    std::vector<std::vector<float>> values(count);
    std::vector<const std::byte *> parts;
    for (size_t part = 0; part < count; ++part) {
      for (uint32_t i = 0; i < 3000; ++i)
        values[part].push_back(
            floatOf(i * 1431655u % 0x7f000000u + static_cast<uint32_t>(part)));
      parts.push_back(reinterpret_cast<const std::byte *>(values[part].data()));
    }
    std::vector<float> result(3000);
    reduceParts(parts.data(), count, result.data(), 3000, DType::F32,
                Reduce::Mean);
    for (size_t i = 0; i < 3000; ++i) {
      float sum = values[0][i];
      for (size_t part = 1; part < count; ++part)
        sum += values[part][i];
      ASSERT_EQ(bitsOf(result[i]), bitsOf(sum / static_cast<float>(count)));
    }
  }
}

TEST(Reduction, theResultMayBeAnyPart) {
  for (size_t own : {0u, 1u, 2u}) {
    std::vector<std::vector<int32_t>> values = {{1, 2}, {10, 20}, {100, 200}};
    std::vector<const std::byte *> parts;
    for (const std::vector<int32_t> &part : values)
      parts.push_back(reinterpret_cast<const std::byte *>(part.data()));
    reduceParts(parts.data(), 3, values[own].data(), 2, DType::I32,
                Reduce::Sum);
    EXPECT_EQ(values[own], (std::vector<int32_t>{111, 222}));
  }
}
