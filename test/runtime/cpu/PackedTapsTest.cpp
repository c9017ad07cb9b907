// Tests the order of packed filters.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/conv/PackedTaps.h"
#include "test/runtime/cpu/GuardedMemory.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// An axis of 20 pixels of the result.
SumAxis axisOf(int64_t kernel, int64_t stride, bool isGradient) {
  return {20, 20, kernel, stride, 1, 0, isGradient};
}

/// Packs filters with the numbers 1, 2, 3, ..., of 5 lanes and 3 channels, on
/// guarded memory, and compares each packed weight with its filter's.
void expectPacked(SumKind kind, int64_t rows, int64_t kernel, int64_t stride) {
  constexpr int64_t kLanes = 5, kChannels = 3;
  const PackedTaps taps(axisOf(kernel, stride, true), kind, kChannels,
                        kChannels);
  std::vector<float> weights(size_t(kLanes * kChannels * rows * kernel));
  std::iota(weights.begin(), weights.end(), 1.0f);
  const Operand operand{DType::F32, weights.data()};
  const int64_t lanes = kind == SumKind::Dots ? kMostOutputs : kLanes;
  const FilterLanes filters = {&operand, rows, lanes, kChannels, 0, 1, kLanes};
  for (At end : {At::Start, At::End}) {
    const Guarded scratch(taps.scratchBytes(rows), end, std::byte{0xff});
    const Guarded packed(size_t(rows * taps.rowElements()) * sizeof(float), end,
                         std::byte{0xff});
    taps.pack(filters, packed.data, scratch.data);
    EXPECT_TRUE(scratch.isIntact() && packed.isIntact());

    const auto *to = reinterpret_cast<const float *>(packed.data);
    double sum = 0, expected = 0;
    for (int64_t i = 0; i < rows * taps.rowElements(); ++i)
      sum += to[i];
    for (int64_t channel = 0; channel < kChannels; ++channel)
      for (int64_t lane = 0; lane < lanes; ++lane)
        for (int64_t i = 0; i < rows * kernel; ++i)
          expected +=
              weights[size_t((channel * kLanes + lane) * rows * kernel + i)];
    EXPECT_EQ(sum, expected) << "a weight is missing, or packed twice";

    // A gradient's pixels meet the last taps first, and of each tap all
    // channels.
    for (int64_t kindOf = 0; kindOf < stride; ++kindOf)
      for (const SumRun &run : taps.kinds[size_t(kindOf)])
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t term = 0; term < run.terms; ++term)
            for (int64_t lane = 0; lane < lanes; ++lane) {
              const int64_t met = run.terms / kChannels;
              const int64_t tap =
                  kindOf + (met - 1 - term / kChannels) * stride;
              const int64_t at =
                  kind == SumKind::Dots
                      ? lane * taps.outputStep + run.weights + term
                      : run.weights + term * kSumLanes + lane;
              const int64_t filter = term % kChannels * kLanes + lane;
              ASSERT_EQ(to[row * taps.rowElements() + at],
                        weights[size_t((filter * rows + row) * kernel + tap)]);
            }
  }
}

TEST(PackedTaps, EveryWeightHasOnePlace) {
  for (SumKind kind : {SumKind::Shared, SumKind::Dots})
    for (int64_t stride : {1, 2, 3}) {
      expectPacked(kind, 1, 1 + stride, stride);
      expectPacked(kind, 4, 7, stride);
      expectPacked(kind, 300, 5, stride); // more than pass scratch at once
    }
}

TEST(PackedTaps, PairsNeedLongRuns) {
  auto gains = [](int64_t channels, int64_t stride) {
    return PackedTaps(axisOf(4, stride, true), SumKind::SharedPairs, channels,
                      channels)
        .gainsByPairs();
  };
  EXPECT_TRUE(gains(1, 1));
  EXPECT_TRUE(gains(8, 4));
  EXPECT_FALSE(gains(1, 4)); // each kind meets one tap of one channel
}

} // namespace
