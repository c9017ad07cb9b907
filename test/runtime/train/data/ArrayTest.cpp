// Tests conversion between element types: exact conversions, and located
// errors.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include <cmath>
#include <limits>

namespace mpc::runtime::train {
namespace {

TEST(Array, EveryByteKeepsItsValueAsFloat) {
  std::vector<uint8_t> bytes(256);
  for (size_t i = 0; i < 256; ++i)
    bytes[i] = uint8_t(i);
  StatusOr<Tensor> tensor =
      toTensor(makeArray("x", ElementType::U8, {256}, bytes), DType::F32);
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(tensor->as<float>()[i], float(i));
}

TEST(Array, EveryHalfSurvivesTheWayThroughDouble) {
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] = uint16_t(i);
  for (ElementType type : {ElementType::F16, ElementType::BF16}) {
    const Array narrow = makeArray("x", type, {65536}, bits);
    StatusOr<Tensor> wide = toTensor(narrow, DType::F64);
    StatusOr<Tensor> back =
        toTensor(toArray("x", *wide),
                 type == ElementType::F16 ? DType::F16 : DType::BF16);
    for (int i = 0; i < 65536; ++i)
      if (!std::isnan(wide->as<double>()[i])) {
        EXPECT_EQ(back->as<uint16_t>()[i], bits[size_t(i)]);
      }
  }
}

TEST(Array, DoubleRoundsOnceToHalf) {
  // Just above the midpoint of 1 and the next half. Through float it would
  // round to the midpoint first, and then to even.
  const double value = 1 + std::ldexp(1, -11) + std::ldexp(1, -40);
  StatusOr<Tensor> tensor = toTensor(
      makeArray<double>("x", ElementType::F64, {1}, {value}), DType::F16);
  EXPECT_EQ(*tensor->as<uint16_t>(), 0x3c01);
}

TEST(Array, NamesTheElementThatDoesNotFit) {
  const Array array =
      makeArray<int32_t>("x", ElementType::I32, {2, 2}, {0, 1, 300, 2});
  expectFailure(toTensor(array, DType::U8).status(), StatusCode::InvalidInput,
                "x[1,0]: 300 does not fit in u8");
  expectFailure(toTensor(array, DType::I1).status(), StatusCode::InvalidInput,
                "x[1,0]: 300 does not fit in i1");
}

TEST(Array, FractionsAreNoIntegers) {
  const Array array =
      makeArray<float>("y", ElementType::F32, {2}, {1.0f, 0.5f});
  expectFailure(toTensor(array, DType::I64).status(), StatusCode::InvalidInput,
                "y[1]: 0.5 is not an integer");
}

TEST(Array, IntegersThatFloatWouldRoundAreRefused) {
  const Array array =
      makeArray<int64_t>("y", ElementType::I64, {2}, {1 << 24, (1 << 24) + 1});
  expectFailure(toTensor(array, DType::F32).status(), StatusCode::InvalidInput,
                "y[1]: 16777217 has no exact value in f32");
  const Array top =
      makeArray<uint64_t>("y", ElementType::U64, {1}, {UINT64_MAX});
  expectFailure(toTensor(top, DType::F64).status(), StatusCode::InvalidInput,
                "18446744073709551615 has no exact value");
}

TEST(Array, EveryTypeIsATensors) {
  const Array array =
      makeArray<int16_t>("y", ElementType::I16, {2}, {-32768, 32767});
  StatusOr<Tensor> tensor = toTensor(array);
  EXPECT_EQ(tensor->type, DType::I16);
  EXPECT_EQ(tensor->as<int16_t>()[0], -32768);
  expectFailure(toTensor(array, DType::U64).status(), StatusCode::InvalidInput,
                "y[0]: -32768 does not fit in u64");
}

TEST(Array, BoundsOfI64AreExact) {
  const auto convertOne = [](double value) {
    return toTensor(makeArray<double>("v", ElementType::F64, {1}, {value}),
                    DType::I64);
  };
  EXPECT_EQ(*convertOne(-9223372036854775808.0)->as<int64_t>(), INT64_MIN);
  EXPECT_FALSE(convertOne(9223372036854775808.0).ok());
  EXPECT_FALSE(convertOne(std::nan("")).ok());
}

TEST(Array, FiniteValuesDoNotBecomeInfinite) {
  const Array array = makeArray<double>("x", ElementType::F64, {1}, {1e300});
  expectFailure(toTensor(array, DType::F32).status(), StatusCode::InvalidInput,
                "1e+300 does not fit in f32");
}

TEST(Array, NonFiniteValuesPassOnlyWhereAllowed) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Array array =
      makeArray<float>("x", ElementType::F32, {2}, {1, -infinity});
  EXPECT_TRUE(toTensor(array, DType::F64).ok());
  auto bad =
      convertElements(array, 0, 2, DType::F32, NonFinite::Reject, nullptr);
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(describe(array, *bad, DType::F32),
            "x[1]: -inf is not a finite number");
}

} // namespace
} // namespace mpc::runtime::train
