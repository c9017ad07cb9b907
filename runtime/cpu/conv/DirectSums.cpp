// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/conv/DirectSums.h"
#include "runtime/cpu/CPUFeatures.h"

#include <cstring>
#include <immintrin.h>
#include <utility>

namespace mpc::runtime {
namespace {

#define MPC_INLINE static inline __attribute__((always_inline))
#define MPC_SUMS_AVX512 __attribute__((target("avx512f,avx512bw,fma")))
#define MPC_SUMS_AVX2 __attribute__((target("avx2,fma")))
#define MPC_SUMS_PAIRS                                                         \
  __attribute__((target("avx512f,avx512bw,avx512bf16,fma")))
#define MPC_INLINE_PAIRS                                                       \
  static inline __attribute__((always_inline,                                  \
                               target("avx512f,avx512bw,avx512bf16,fma")))

template <int kLength>
struct FloatVector {
  typedef float type __attribute__((vector_size(kLength * sizeof(float))));
};

/// Addresses of the first elements of a run: in the source, for the first
/// pixel, and in the weights.
template <typename T>
struct RunElements {
  const T *source, *weights;
};

template <typename T>
MPC_INLINE RunElements<T> elementsOf(const PixelSums &sums, int64_t row,
                                     int64_t run, int64_t pixel) {
  return {static_cast<const T *>(sums.rows[row].source) +
              sums.runs[run].source + pixel * sums.pixelStep,
          static_cast<const T *>(sums.rows[row].weights) +
              sums.runs[run].weights};
}

//===----------------------------------------------------------------------===//
// A sum in each lane
//===----------------------------------------------------------------------===//

/// The source elements that the weights of a term multiply.
enum class Meets {
  Shared, ///< one source element, broadcast to all lanes
  Own,    ///< one source element per lane
  Sliding ///< like Own; term t + 1 of a pixel is term t of the next
};

/// Adds terms [term, term + kTerms) to the sums of `kPixels` pixels.
template <int kLanes, int kPixels, int kTerms, Meets kMeets>
MPC_INLINE void addTerms(const RunElements<float> &run, int64_t step,
                         int64_t term,
                         typename FloatVector<kLanes>::type *total) {
  using V = typename FloatVector<kLanes>::type;
  V weights[kTerms];
  for (int i = 0; i < kTerms; ++i)
    std::memcpy(&weights[i], run.weights + (term + i) * kSumLanes, sizeof(V));
  if constexpr (kMeets == Meets::Sliding) {
    // Adjacent pixels share vectors, so load each vector only once.
    for (int place = 0; place < kPixels + kTerms - 1; ++place) {
      V value;
      std::memcpy(&value, run.source + (place + term) * kSumLanes, sizeof(V));
      for (int i = 0; i < kTerms; ++i)
        if (place - i >= 0 && place - i < kPixels)
          total[place - i] += value * weights[i];
    }
    return;
  }
  for (int i = 0; i < kTerms; ++i)
    for (int pixel = 0; pixel < kPixels; ++pixel) {
      const float *from = run.source + pixel * step;
      if constexpr (kMeets == Meets::Shared) {
        total[pixel] += from[term + i] * weights[i];
      } else {
        V value;
        std::memcpy(&value, from + (term + i) * kSumLanes, sizeof(V));
        total[pixel] += value * weights[i];
      }
    }
}

template <int kLanes, int kPixels, Meets kMeets>
MPC_INLINE void sumLanes(const PixelSums &sums, int64_t pixel) {
  using V = typename FloatVector<kLanes>::type;
  constexpr int kTerms = kMeets == Meets::Sliding ? 3 : 1;
  V total[kPixels] = {};
  const int64_t step = sums.pixelStep;
  for (int64_t row = 0; row < sums.rowCount; ++row)
    for (int64_t i = 0; i < sums.runCount; ++i) {
      const RunElements<float> run = elementsOf<float>(sums, row, i, pixel);
      const int64_t end = sums.runs[i].terms;
      int64_t term = 0;
      for (; term + kTerms <= end; term += kTerms)
        addTerms<kLanes, kPixels, kTerms, kMeets>(run, step, term, total);
      for (; kTerms > 1 && term < end; ++term)
        addTerms<kLanes, kPixels, 1, kMeets>(run, step, term, total);
    }
  for (int i = 0; i < kPixels; ++i)
    std::memcpy(sums.result + (pixel + i) * sums.resultStep, &total[i],
                sizeof(V));
}

template <int kPixels, Meets kMeets, int kLanes = kSumLanes>
MPC_INLINE void sumAllLanes(const PixelSums &sums, int64_t pixels) {
  int64_t pixel = 0;
  for (; pixel + kPixels <= pixels; pixel += kPixels)
    sumLanes<kLanes, kPixels, kMeets>(sums, pixel);
  for (; pixel + kPixels / 2 <= pixels; pixel += kPixels / 2)
    sumLanes<kLanes, kPixels / 2, kMeets>(sums, pixel);
  for (; pixel < pixels; ++pixel)
    sumLanes<kLanes, 1, kMeets>(sums, pixel);
}

/// Broadcasts two adjacent bf16 numbers to all lanes.
MPC_INLINE_PAIRS __m512bh broadcastPair(const uint16_t *from) {
  int32_t pair;
  std::memcpy(&pair, from, sizeof(pair));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

MPC_INLINE_PAIRS __m512bh loadPairs(const uint16_t *from) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}

template <int kPixels>
MPC_INLINE_PAIRS void sumLanePairs(const PixelSums &sums, int64_t pixel) {
  __m512 total[kPixels];
  for (__m512 &sum : total)
    sum = _mm512_setzero_ps();
  const int64_t step = sums.pixelStep;
  for (int64_t row = 0; row < sums.rowCount; ++row)
    for (int64_t run = 0; run < sums.runCount; ++run) {
      const auto [source, weights] =
          elementsOf<uint16_t>(sums, row, run, pixel);
      const int64_t end = sums.runs[run].terms;
      int64_t term = 0;
      for (; term + 2 <= end; term += 2) {
        const __m512bh weight = loadPairs(weights + term * kSumLanes);
        for (int i = 0; i < kPixels; ++i)
          total[i] = _mm512_dpbf16_ps(
              total[i], broadcastPair(source + i * step + term), weight);
      }
      if (term == end)
        continue;
      // Multiply the last term alone. The source element behind the term may be
      // infinity, and infinity times a zero weight is NaN.
      const __m512bh weight = loadPairs(weights + term * kSumLanes);
      for (int i = 0; i < kPixels; ++i)
        total[i] =
            _mm512_dpbf16_ps(total[i],
                             reinterpret_cast<__m512bh>(_mm512_set1_epi32(
                                 int32_t(source[i * step + term]))),
                             weight);
    }
  for (int i = 0; i < kPixels; ++i)
    _mm512_storeu_ps(sums.result + (pixel + i) * sums.resultStep, total[i]);
}

MPC_SUMS_PAIRS void sumSharedPairs(const PixelSums &sums, int64_t pixels) {
  constexpr int kPixels = 8;
  int64_t pixel = 0;
  for (; pixel + kPixels <= pixels; pixel += kPixels)
    sumLanePairs<kPixels>(sums, pixel);
  for (; pixel + kPixels / 2 <= pixels; pixel += kPixels / 2)
    sumLanePairs<kPixels / 2>(sums, pixel);
  for (; pixel < pixels; ++pixel)
    sumLanePairs<1>(sums, pixel);
}

//===----------------------------------------------------------------------===//
// Dot products
//===----------------------------------------------------------------------===//

/// Returns an index for a shuffle of the vectors a and b of `length` elements:
/// element i of the result is element shuffleIndex(i) of [a, b]. The shuffle
/// takes the even (or odd) groups of `group` elements, alternately from a and
/// b: of groups of 2, a0 a1 b0 b1 a4 a5 b4 b5. Single elements come in the
/// order of an instruction that CPUs have: a0 b0 a1 b1 a4 b4 a5 b5.
constexpr int shuffleIndex(int i, int length, int group, bool isOdd) {
  if (group == 1)
    return i / 4 * 4 + (isOdd ? 2 : 0) + i % 4 / 2 + (i % 2 ? length : 0);
  const int within = i % (2 * group);
  return i - within + (isOdd ? group : 0) + within % group +
         (within >= group ? length : 0);
}

template <int kLength, int kGroup, bool kIsOdd, int... kIndices>
MPC_INLINE void shuffle(const typename FloatVector<kLength>::type &a,
                        const typename FloatVector<kLength>::type &b,
                        typename FloatVector<kLength>::type &result,
                        std::integer_sequence<int, kIndices...>) {
  result = __builtin_shufflevector(
      a, b, shuffleIndex(kIndices, kLength, kGroup, kIsOdd)...);
}

/// Sets element i of the first vector to the sum of all elements of vector i.
template <int kLength, int kGroup = 1>
MPC_INLINE void addAcross(typename FloatVector<kLength>::type *vectors) {
  if constexpr (kGroup < kLength) {
    constexpr auto kAll = std::make_integer_sequence<int, kLength>();
    for (int i = 0; i < kLength / kGroup / 2; ++i) {
      typename FloatVector<kLength>::type even, odd;
      shuffle<kLength, kGroup, false>(vectors[2 * i], vectors[2 * i + 1], even,
                                      kAll);
      shuffle<kLength, kGroup, true>(vectors[2 * i], vectors[2 * i + 1], odd,
                                     kAll);
      vectors[i] = even + odd;
    }
    addAcross<kLength, 2 * kGroup>(vectors);
  }
}

/// Sums the elements of each vector in `total`, [kPixels][kOutputs], and writes
/// the sums to the result.
template <int kLength, int kPixels, int kOutputs>
MPC_INLINE void writeDots(const PixelSums &sums, int64_t pixel,
                          typename FloatVector<kLength>::type *total) {
  addAcross<kLength>(total);
  float *to = sums.result + pixel * sums.resultStep;
  if (sums.resultStep == kOutputs) {
    std::memcpy(to, total, kPixels * kOutputs * sizeof(float));
    return;
  }
  float values[kLength];
  std::memcpy(values, total, sizeof(values));
  for (int i = 0; i < kPixels; ++i)
    std::memcpy(to + i * sums.resultStep, values + i * kOutputs,
                kOutputs * sizeof(float));
}

template <int kLength, int kPixels, int kOutputs>
MPC_INLINE void sumDots(const PixelSums &sums, int64_t pixel) {
  using V = typename FloatVector<kLength>::type;
  static_assert(kPixels * kOutputs <= kLength);
  V total[kLength] = {};
  const int64_t step = sums.pixelStep;
  for (int64_t row = 0; row < sums.rowCount; ++row)
    for (int64_t run = 0; run < sums.runCount; ++run) {
      const auto [source, weights] = elementsOf<float>(sums, row, run, pixel);
      for (int64_t term = 0, end = sums.runs[run].terms; term < end;
           term += kLength) {
        V weight[kOutputs];
        for (int o = 0; o < kOutputs; ++o)
          std::memcpy(&weight[o], weights + o * sums.outputStep + term,
                      sizeof(V));
        for (int i = 0; i < kPixels; ++i) {
          V value;
          std::memcpy(&value, source + i * step + term, sizeof(V));
          for (int o = 0; o < kOutputs; ++o)
            total[i * kOutputs + o] += value * weight[o];
        }
      }
    }
  writeDots<kLength, kPixels, kOutputs>(sums, pixel, total);
}

template <int kPixels, int kOutputs>
MPC_INLINE_PAIRS void sumDotPairs(const PixelSums &sums, int64_t pixel) {
  using V = FloatVector<kSumLanes>::type;
  V total[kSumLanes] = {};
  const int64_t step = sums.pixelStep;
  for (int64_t row = 0; row < sums.rowCount; ++row)
    for (int64_t run = 0; run < sums.runCount; ++run) {
      const auto [source, weights] =
          elementsOf<uint16_t>(sums, row, run, pixel);
      for (int64_t term = 0, end = sums.runs[run].terms; term < end;
           term += 2 * kSumLanes) {
        __m512bh weight[kOutputs];
        for (int o = 0; o < kOutputs; ++o)
          weight[o] = loadPairs(weights + o * sums.outputStep + term);
        for (int i = 0; i < kPixels; ++i) {
          const __m512bh value = loadPairs(source + i * step + term);
          for (int o = 0; o < kOutputs; ++o)
            total[i * kOutputs + o] =
                _mm512_dpbf16_ps(total[i * kOutputs + o], value, weight[o]);
        }
      }
    }
  writeDots<kSumLanes, kPixels, kOutputs>(sums, pixel, total);
}

//===----------------------------------------------------------------------===//
// The CPU's functions
//===----------------------------------------------------------------------===//

struct LaneSums {
  int64_t length; ///< floats of a vector
  SumFunction shared, sharedHalf, own, dots[kMostOutputs];
};

/// Defines a function that sums `kPixels` pixels at a time. If pixels remain,
/// the last call of `sumSome` ends at the last pixel and computes some pixels
/// again; additions have the same order, so the bits are the same.
#define MPC_DEFINE_DOTS(name, attribute, length, sumSome, sumOne)              \
  template <int kOutputs>                                                      \
  attribute void name(const PixelSums &sums, int64_t pixels) {                 \
    constexpr int kPixels = length / kOutputs;                                 \
    int64_t pixel = 0;                                                         \
    for (; pixel + kPixels <= pixels; pixel += kPixels)                        \
      sumSome(sums, pixel);                                                    \
    if (pixel < pixels && pixels >= kPixels)                                   \
      return sumSome(sums, pixels - kPixels);                                  \
    for (; pixel < pixels; ++pixel)                                            \
      sumOne(sums, pixel);                                                     \
  }

#define MPC_DEFINE_SUMS(suffix, attribute, pixels, length)                     \
  attribute void sumShared##suffix(const PixelSums &sums, int64_t count) {     \
    sumAllLanes<pixels, Meets::Shared>(sums, count);                           \
  }                                                                            \
  attribute void sumSharedHalf##suffix(const PixelSums &sums, int64_t count) { \
    sumAllLanes<2 * pixels, Meets::Shared, kSumLanes / 2>(sums, count);        \
  }                                                                            \
  attribute void sumOwn##suffix(const PixelSums &sums, int64_t count) {        \
    if (sums.pixelStep == kSumLanes)                                           \
      sumAllLanes<pixels, Meets::Sliding>(sums, count);                        \
    else                                                                       \
      sumAllLanes<pixels, Meets::Own>(sums, count);                            \
  }                                                                            \
  MPC_DEFINE_DOTS(sumDots##suffix, attribute, length,                          \
                  (sumDots<length, kPixels, kOutputs>),                        \
                  (sumDots<length, 1, kOutputs>))                              \
  constexpr LaneSums kSums##suffix = {length,                                  \
                                      sumShared##suffix,                       \
                                      sumSharedHalf##suffix,                   \
                                      sumOwn##suffix,                          \
                                      {sumDots##suffix<1>, sumDots##suffix<2>, \
                                       sumDots##suffix<3>,                     \
                                       sumDots##suffix<4>}};

MPC_DEFINE_SUMS(AVX512, MPC_SUMS_AVX512, 8, 16)
MPC_DEFINE_SUMS(AVX2, MPC_SUMS_AVX2, 4, 8)
MPC_DEFINE_SUMS(Baseline, , 2, 4)

MPC_DEFINE_DOTS(sumAllDotPairs, MPC_SUMS_PAIRS, kSumLanes,
                (sumDotPairs<kPixels, kOutputs>), (sumDotPairs<1, kOutputs>))
constexpr SumFunction kDotPairs[kMostOutputs] = {
    sumAllDotPairs<1>, sumAllDotPairs<2>, sumAllDotPairs<3>, sumAllDotPairs<4>};

} // namespace

static const LaneSums &hostSums() {
  if (hostHasAVX512())
    return kSumsAVX512;
  return hostHasFeature("avx2") && hostHasFeature("fma") ? kSumsAVX2
                                                         : kSumsBaseline;
}

int64_t floatLanes() { return hostSums().length; }

SumFunction chooseSums(SumKind kind, int64_t outputs) {
  const LaneSums &sums = hostSums();
  switch (kind) {
  case SumKind::Shared:
    return sums.shared;
  case SumKind::SharedHalf:
    return sums.sharedHalf;
  case SumKind::SharedPairs:
    return sumSharedPairs;
  case SumKind::Own:
    return sums.own;
  case SumKind::Dots:
    return sums.dots[outputs - 1];
  case SumKind::DotPairs:
    return kDotPairs[outputs - 1];
  }
  return nullptr;
}

} // namespace mpc::runtime
