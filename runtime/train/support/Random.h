// Random numbers from a counter, without stored state: the numbers for an epoch
// or a sample are equal on every computer and in a resumed run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_RANDOM_H
#define MPC_RUNTIME_TRAIN_SUPPORT_RANDOM_H

#include <cstdint>

namespace mpc::runtime::train {

/// The purpose of random numbers. Equal seeds give unrelated numbers for
/// different purposes.
enum class Stream : uint64_t { Epoch = 1, Split = 2, Augmentation = 3 };

/// Generates the random numbers that belong to (seed, stream, number), by
/// SplitMix64 in counter order. `number` is, for example, an epoch.
class Generator {
public:
  Generator(uint64_t seed, Stream stream, uint64_t number)
      : state(mix(mix(mix(seed + kGoldenGamma) ^ uint64_t(stream)) + number)) {}

  /// Returns a uniform number in [0, bound): the high half of a random number
  /// times `bound`. Draws again for the few numbers that would make some
  /// results more likely than others.
  uint64_t below(uint64_t bound) {
    const uint64_t threshold = (0 - bound) % bound;
    for (;;) {
      const auto product = static_cast<unsigned __int128>(next()) * bound;
      if (uint64_t(product) >= threshold)
        return uint64_t(product >> 64);
    }
  }

private:
  static constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15;

  /// SplitMix64's output function: a bijection that scatters every bit.
  static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }

  uint64_t next() { return mix(state += kGoldenGamma); }

  uint64_t state;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_RANDOM_H
