// SplitMix64 and an unbiased Fisher-Yates shuffle.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Permutation.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace mpc::runtime::train {

/// SplitMix64's output function: a bijection that scatters every bit.
static uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

static constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15;

namespace {

/// The numbers of one (seed, stream, number), in counter order.
class Generator {
public:
  Generator(uint64_t seed, Stream stream, uint64_t number)
      : state(mix(mix(mix(seed + kGoldenGamma) ^ uint64_t(stream)) + number)) {}

  /// Uniform in [0, bound): the high half of a product, with the few values
  /// that would favour some results drawn again.
  uint64_t below(uint64_t bound) {
    const uint64_t threshold = (0 - bound) % bound;
    for (;;) {
      const auto product = static_cast<unsigned __int128>(next()) * bound;
      if (uint64_t(product) >= threshold)
        return uint64_t(product >> 64);
    }
  }

private:
  uint64_t next() { return mix(state += kGoldenGamma); }

  uint64_t state;
};

} // namespace

std::vector<int64_t> permutation(int64_t count, uint64_t seed, Stream stream,
                                 uint64_t number) {
  std::vector<int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), int64_t(0));
  Generator generator(seed, stream, number);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[generator.below(i)]);
  return order;
}

} // namespace mpc::runtime::train
