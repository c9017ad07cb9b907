// Tests conversions of host tensors, exhaustively for the 16-bit types.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Tensor.h"
#include "runtime/FloatBits.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mpc::runtime;

namespace {

/// A 16-bit format by its parameters, for computation in double.
struct Format {
  int exponentBits, mantissaBits;

  int bias() const { return (1 << (exponentBits - 1)) - 1; }
  uint16_t infinity() const {
    return static_cast<uint16_t>(((1 << exponentBits) - 1) << mantissaBits);
  }
  /// The value of a non-negative finite bit pattern. Infinity's pattern gives
  /// the first power of two that does not fit.
  double valueOf(int bits) const {
    int exponent = bits >> mantissaBits;
    double mantissa = bits & ((1 << mantissaBits) - 1);
    if (exponent == 0)
      return std::ldexp(mantissa, 1 - bias() - mantissaBits);
    return std::ldexp(mantissa + (1 << mantissaBits),
                      exponent - bias() - mantissaBits);
  }
};

constexpr Format kF16 = {5, 10};
constexpr Format kBF16 = {8, 7};

void expectWidensExactly(Format format, float (*widen)(uint16_t)) {
  for (int bits = 0; bits < format.infinity(); ++bits) {
    ASSERT_EQ(widen(static_cast<uint16_t>(bits)), format.valueOf(bits));
    ASSERT_EQ(widen(static_cast<uint16_t>(bits | 0x8000)),
              -format.valueOf(bits));
  }
  EXPECT_EQ(widen(format.infinity()), INFINITY);
  EXPECT_TRUE(std::signbit(widen(0x8000)));
  for (int bits = format.infinity() + 1; bits < 0x8000; ++bits)
    ASSERT_TRUE(std::isnan(widen(static_cast<uint16_t>(bits))));
}

/// Tests numbers around each value and each midpoint of neighbours. Rounding
/// goes to the nearest, and at the midpoint to even.
void expectRoundsToNearestEven(Format format, uint16_t (*narrow)(float)) {
  for (int bits = 0; bits < format.infinity(); ++bits) {
    auto low = static_cast<float>(format.valueOf(bits));
    double high = format.valueOf(bits + 1);
    auto middle = static_cast<float>((low + high) / 2);
    int even = bits + (bits & 1);
    ASSERT_EQ(narrow(low), bits);
    ASSERT_EQ(narrow(middle), even);
    ASSERT_EQ(narrow(std::nextafterf(middle, 0)), bits);
    ASSERT_EQ(narrow(std::nextafterf(middle, INFINITY)), bits + 1);
    ASSERT_EQ(narrow(-middle), even | 0x8000);
  }
  EXPECT_EQ(narrow(INFINITY), format.infinity());
  EXPECT_EQ(narrow(-INFINITY), format.infinity() | 0x8000);
  EXPECT_EQ(narrow(3.4e38f), format.infinity());
}

TEST(FloatBits, WidensEveryF16) { expectWidensExactly(kF16, f16ToFloat); }
TEST(FloatBits, WidensEveryBF16) { expectWidensExactly(kBF16, bf16ToFloat); }

TEST(FloatBits, RoundsToNearestEvenF16) {
  expectRoundsToNearestEven(kF16, floatToF16);
}
TEST(FloatBits, RoundsToNearestEvenBF16) {
  expectRoundsToNearestEven(kBF16, floatToBF16);
}

TEST(FloatBits, RoundTripsEveryValue) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    if (!std::isnan(f16ToFloat(half)))
      ASSERT_EQ(floatToF16(f16ToFloat(half)), half);
    else
      ASSERT_EQ(floatToF16(f16ToFloat(half)), half | 0x200);
    if (!std::isnan(bf16ToFloat(half)))
      ASSERT_EQ(floatToBF16(bf16ToFloat(half)), half);
    else
      ASSERT_EQ(floatToBF16(bf16ToFloat(half)), half | 0x40);
  }
}

TEST(FloatBits, RoundsDoublesOnce) {
  // Above the midpoint of two values by less than a float resolves: rounding
  // through float would give the midpoint and then round to even.
  for (int bits : {0x3f80, 0x3f82, 0x0002}) {
    double middle = (kBF16.valueOf(bits) + kBF16.valueOf(bits + 1)) / 2;
    double above = std::nextafter(middle, INFINITY);
    EXPECT_EQ(floatToBF16(doubleToFloatRoundToOdd(above)), bits + 1);
    EXPECT_EQ(floatToBF16(doubleToFloatRoundToOdd(middle)), bits);
  }
  EXPECT_EQ(floatToF16(doubleToFloatRoundToOdd(1e300)), 0x7c00);
  EXPECT_EQ(floatToF16(doubleToFloatRoundToOdd(-1e-300)), 0x8000);
}

template <typename T>
Tensor one(DType type, T value) {
  Tensor tensor = Tensor::zeros(type, {});
  *tensor.as<T>() = value;
  return tensor;
}

TEST(Convert, FloatToIntegerWantsIntegralValuesInRange) {
  EXPECT_EQ(*convert(one(DType::F32, 3.0f), DType::I64)->as<int64_t>(), 3);
  EXPECT_FALSE(convert(one(DType::F32, 3.5f), DType::I64).ok());
  EXPECT_FALSE(convert(one(DType::F32, NAN), DType::I32).ok());
  EXPECT_FALSE(convert(one(DType::F64, 0x1p31), DType::I32).ok());
  EXPECT_FALSE(convert(one(DType::F64, 0x1p63), DType::I64).ok());
  EXPECT_TRUE(convert(one(DType::F64, -0x1p63), DType::I64).ok());
  EXPECT_FALSE(convert(one(DType::F32, 2.0f), DType::I1).ok());
  EXPECT_EQ(convert(one(DType::F32, -1.0f), DType::U8).status().getCode(),
            StatusCode::InvalidInput);
}

TEST(Convert, IntegersKeepTheirValueInEveryTypeThatHasIt) {
  Tensor top = one<uint64_t>(DType::U64, UINT64_MAX);
  EXPECT_EQ(*convert(top, DType::F64)->as<double>(), 0x1p64);
  EXPECT_FALSE(convert(top, DType::I64).ok());
  EXPECT_EQ(convert(top, DType::I64).status().message(),
            "element 0 of a u64 tensor is 18446744073709551615, which i64 "
            "cannot hold");
  Tensor low = one<int8_t>(DType::I8, -128);
  EXPECT_EQ(*convert(low, DType::I16)->as<int16_t>(), -128);
  EXPECT_EQ(*convert(low, DType::F32)->as<float>(), -128);
  EXPECT_FALSE(convert(low, DType::U64).ok());
  EXPECT_FALSE(convert(low, DType::I1).ok());
  EXPECT_EQ(*convert(one(DType::F64, 0x1p63), DType::U64)->as<uint64_t>(),
            uint64_t(1) << 63);
  EXPECT_FALSE(convert(one(DType::F64, 0x1p64), DType::U64).ok());
  EXPECT_FALSE(convert(one<uint16_t>(DType::U16, 40000), DType::I16).ok());
}

TEST(Convert, LargeIntegersRoundOnce) {
  // 2^60 + 2^52 is a bf16 midpoint. One more must round up.
  int64_t middle = (int64_t(1) << 60) + (int64_t(1) << 52);
  Tensor up = *convert(one<int64_t>(DType::I64, middle + 1), DType::BF16);
  Tensor even = *convert(one<int64_t>(DType::I64, middle), DType::BF16);
  EXPECT_EQ(*up.as<uint16_t>(), *even.as<uint16_t>() + 1);
  Tensor lowest = *convert(one<int64_t>(DType::I64, INT64_MIN), DType::F32);
  EXPECT_EQ(*lowest.as<float>(), -0x1p63f);
}

TEST(Convert, FloatsMatchTheHardware) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    Tensor narrow = *convert(one(DType::F64, value), DType::F32);
    if (std::isnan(value))
      ASSERT_TRUE(std::isnan(*narrow.as<float>()));
    else
      ASSERT_EQ(*narrow.as<float>(), static_cast<float>(value));
  }
}

TEST(Shapes, BytesAreCheckedForOverflow) {
  EXPECT_EQ(checkedBytes(DType::F32, {2, 3}), 24);
  EXPECT_EQ(checkedBytes(DType::F64, {}), 8);
  EXPECT_EQ(checkedBytes(DType::F32, {0, 5}), 0);
  EXPECT_FALSE(checkedBytes(DType::F32, {-1}));
  EXPECT_FALSE(checkedBytes(DType::F32, {int64_t(1) << 40, int64_t(1) << 40}));
}

} // namespace
