// A spatial axis of a convolution or of its gradient: which places of the
// source the taps of a place of the result meet.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONV_SUMAXIS_H
#define MPC_RUNTIME_CPU_CONV_SUMAXIS_H

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace mpc::runtime {

/// A spatial axis of source and result.
struct SumAxis {
  int64_t source = 1, result = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  bool isGradient = false;

  /// From one pixel of a kind to the next: in the result, in the source.
  int64_t resultStep() const { return isGradient ? stride : 1; }
  int64_t sourceStep() const { return isGradient ? 1 : stride; }

  /// The place in the source that tap `tap` of result `at` meets, which may lie
  /// outside; false if there is none between the strides.
  bool meets(int64_t at, int64_t tap, int64_t &place) const {
    if (!isGradient) {
      place = at * stride + tap * dilation - pad;
      return true;
    }
    place = at + pad - tap * dilation;
    if (place % stride != 0)
      return false;
    place /= stride;
    return true;
  }
  bool holds(int64_t place) const { return place >= 0 && place < source; }

  /// The length of the range of places with which neighbours meet, at most.
  int64_t countMet(int64_t results) const {
    const int64_t window = (kernel - 1) * dilation + 1;
    return std::min(source, isGradient ? (results - 1 + window - 1) / stride + 1
                                       : (results - 1) * stride + window);
  }
};

/// Neighbours of the result along an axis, and the range of places in the
/// source with which they meet.
struct SumBand {
  int64_t first, count;
  int64_t low = std::numeric_limits<int64_t>::max(), places = 0;
  std::vector<bool> isMet; ///< of the places

  SumBand(const SumAxis &axis, int64_t first, int64_t count)
      : first(first), count(count) {
    int64_t high = -1;
    auto forEachMet = [&](auto body) {
      for (int64_t at = first; at < first + count; ++at)
        for (int64_t tap = 0; tap < axis.kernel; ++tap)
          if (int64_t place; axis.meets(at, tap, place) && axis.holds(place))
            body(place);
    };
    forEachMet([&](int64_t place) {
      low = std::min(low, place);
      high = std::max(high, place);
    });
    places = std::max<int64_t>(0, high - low + 1);
    isMet.resize(size_t(places));
    forEachMet([&](int64_t place) { isMet[size_t(place - low)] = true; });
  }
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONV_SUMAXIS_H
