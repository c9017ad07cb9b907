// Tests the checks of all values of an array.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include <cmath>

namespace mpc::runtime::train {
namespace {

/// Records the calls of a ReadObserver.
struct Recorder : ReadObserver {
  void reading(const std::string &source, int64_t done,
               int64_t total) override {
    EXPECT_EQ(source, "large.npy");
    EXPECT_LE(done, total);
    calls.emplace_back(done, total);
  }
  std::vector<std::pair<int64_t, int64_t>> calls;
};

// Several threads check a large array, block by block. The first of two bad
// elements is named.
TEST(ColumnChecks, LocatesTheFirstBadElementOfALargeArray) {
  constexpr int64_t kSamples = int64_t(3) << 20;
  std::vector<float> values(size_t(kSamples * 4), 1);
  const FunctionPorts ports{{{"x", Role::Data, DType::F32, {2, 1, 2, 2}}}, {}};
  const auto create = [&](ReadObserver *observer) {
    Array array = makeArray("x", ElementType::F32, {kSamples, 1, 2, 2}, values);
    array.source = "large.npy";
    DatasetOptions options;
    options.observer = observer;
    return Dataset::create({array}, ports, options);
  };
  Recorder recorder;
  EXPECT_TRUE(create(&recorder).ok());
  using Call = std::pair<int64_t, int64_t>;
  const int64_t total = kSamples * 16;
  EXPECT_EQ(recorder.calls,
            (std::vector<Call>{{0, total}, {int64_t(32) << 20, total}}));
  values[size_t(kSamples * 3 + 5)] = std::nanf("");
  values[size_t(kSamples * 4 - 1)] = -INFINITY;
  expectInvalid(create(nullptr),
                "large.npy: x[2359297,0,0,1]: nan is not a finite number");
}

// Conversions that cannot fail are not checked. All others are.
TEST(ColumnChecks, ChecksConversionsThatMayFail) {
  const auto create = [](Array array, DType type) {
    const FunctionPorts ports{{{"x", Role::Data, type, {2, 1}}}, {}};
    return Dataset::create({std::move(array)}, ports);
  };
  const auto u16 = [](uint16_t value) {
    return makeArray<uint16_t>("x", ElementType::U16, {2, 1}, {1, value});
  };
  EXPECT_TRUE(create(u16(65535), DType::F32).ok());
  EXPECT_TRUE(create(u16(2048), DType::F16).ok());
  expectInvalid(create(u16(2049), DType::F16),
                "x[1,0]: 2049 has no exact value in f16");
  expectInvalid(create(u16(300), DType::U8), "x[1,0]: 300 does not fit in u8");
  EXPECT_TRUE(create(u16(65535), DType::I32).ok());
  expectInvalid(create(makeArray<int8_t>("x", ElementType::I8, {2, 1}, {1, -1}),
                       DType::U64),
                "x[1,0]: -1 does not fit in u64");
  expectInvalid(
      create(makeArray<double>("x", ElementType::F64, {2, 1}, {1, 1e300}),
             DType::F32),
      "x[1,0]: 1e+300 does not fit in f32");
}

} // namespace
} // namespace mpc::runtime::train
