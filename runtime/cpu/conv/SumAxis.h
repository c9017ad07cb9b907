// A spatial axis of a convolution or of an image gradient. Finds the source
// index that a tap multiplies for an index of the result. A result index meets
// a tap, and the tap's source index, if the product of both is a term of the
// result's sum.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONV_SUMAXIS_H
#define MPC_RUNTIME_CPU_CONV_SUMAXIS_H

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace mpc::runtime {

/// A spatial axis of source and result. The source is the image, or the output
/// gradient if `isGradient`.
struct SumAxis {
  int64_t source = 1, result = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  bool isGradient = false;

  /// The distance between pixels of equal kind, in result and source. In a
  /// gradient with stride s, pixels i and i + s are of equal kind: they meet
  /// the same taps.
  int64_t resultStep() const { return isGradient ? stride : 1; }
  int64_t sourceStep() const { return isGradient ? 1 : stride; }

  /// Sets `place` to the source index that `tap` multiplies for result index
  /// `at`. `place` may lie outside the source. Returns false if the gradient
  /// has no such index because of the stride.
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

  /// Returns the length of the largest range of source indices that `results`
  /// adjacent result indices meet through all taps.
  int64_t countMet(int64_t results) const {
    const int64_t window = (kernel - 1) * dilation + 1;
    return std::min(source, isGradient ? (results - 1 + window - 1) / stride + 1
                                       : (results - 1) * stride + window);
  }
};

/// Result indices [first, first + count) along an axis, and the range of source
/// indices [low, low + places) that their taps meet.
struct SumBand {
  int64_t first, count;
  int64_t low = std::numeric_limits<int64_t>::max(), places = 0;
  std::vector<bool> isMet; ///< by source index: true if a tap multiplies it

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
