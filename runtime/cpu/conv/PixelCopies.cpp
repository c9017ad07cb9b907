// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/conv/PixelCopies.h"
#include "runtime/FloatBits.h"
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/Squares.h"

#include <algorithm>

namespace mpc::runtime {

#define MPC_PIXELS_AVX512 __attribute__((target("avx512f,avx512bw")))

/// Returns a mask with the first `end` bits set.
template <typename Mask>
static Mask maskOf(int64_t end) {
  constexpr int64_t kLanes = 8 * sizeof(Mask);
  return end >= kLanes ? Mask(~Mask(0))
                       : Mask((Mask(1) << std::max<int64_t>(end, 0)) - 1);
}

/// Loads the channels whose bits in `mask` are set, and widens them to floats.
/// All other lanes are zero.
template <DType type>
MPC_PIXELS_AVX512 static inline __attribute__((always_inline)) __m512
loadFloats(const std::byte *from, __mmask16 mask) {
  if (type == DType::F32)
    return _mm512_maskz_loadu_ps(mask, from);
  const __m256i halves =
      _mm512_castsi512_si256(_mm512_maskz_loadu_epi16(mask, from));
  if (type == DType::F16)
    return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

template <DType type>
MPC_PIXELS_AVX512 static void widenPixelsAVX512(const void *source,
                                                const PixelChannels &from,
                                                float *result, int64_t width) {
  constexpr int64_t kLanes = 16;
  const int64_t bytes = sizeOf(type);
  for (int64_t first = 0; first < width; first += kLanes) {
    const auto read = maskOf<__mmask16>(from.channels - first);
    const auto written = maskOf<__mmask16>(width - first);
    const auto *at = static_cast<const std::byte *>(source) + first * bytes;
    float *to = result + first;
    for (int64_t pixel = 0; pixel < from.pixels; ++pixel) {
      _mm512_mask_storeu_ps(to, written, loadFloats<type>(at, read));
      at += from.step * bytes;
      to += width;
    }
  }
}

MPC_PIXELS_AVX512 static void copyPixelsAVX512(const uint16_t *source,
                                               const PixelChannels &from,
                                               uint16_t *result,
                                               int64_t width) {
  constexpr int64_t kLanes = 32;
  for (int64_t first = 0; first < width; first += kLanes) {
    const auto read = maskOf<__mmask32>(from.channels - first);
    const auto written = maskOf<__mmask32>(width - first);
    const uint16_t *at = source + first;
    uint16_t *to = result + first;
    for (int64_t pixel = 0; pixel < from.pixels; ++pixel) {
      _mm512_mask_storeu_epi16(to, written, _mm512_maskz_loadu_epi16(read, at));
      at += from.step;
      to += width;
    }
  }
}

/// Rounds 16 floats per pixel to bf16, and stores the first `to.channels` of
/// each pixel.
MPC_PIXELS_AVX512 static void
narrowSixteens(const float *source, const PixelChannels &to, uint16_t *result) {
  const auto written = maskOf<__mmask16>(to.channels);
  for (int64_t pixel = 0; pixel < to.pixels; ++pixel) {
    alignas(32) uint16_t halves[16];
    for (int lane = 0; lane < 16; ++lane)
      halves[lane] = floatToBF16(source[lane]);
    const __m512i all = _mm512_castsi256_si512(
        _mm256_load_si256(reinterpret_cast<const __m256i *>(halves)));
    _mm512_mask_storeu_epi16(result, written, all);
    source += 16;
    result += to.step;
  }
}

/// Widens pixels that have exactly `kWidth` channels.
template <DType type, int kWidth>
__attribute__((target("avx2,f16c"))) static void
widenWholePixels(const void *source, const PixelChannels &from, float *result) {
  const auto *at = static_cast<const std::byte *>(source);
  const int64_t bytes = sizeOf(type);
  for (int64_t pixel = 0; pixel < from.pixels; ++pixel) {
    for (int64_t first = 0; first < kWidth; first += 8) {
      const std::byte *eight = at + first * bytes;
      __m256 floats;
      if (type == DType::F32)
        floats = _mm256_loadu_ps(reinterpret_cast<const float *>(eight));
      else if (type == DType::F16)
        floats = _mm256_cvtph_ps(loadVector(eight));
      else
        floats = _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_cvtepu16_epi32(loadVector(eight)), 16));
      _mm256_storeu_ps(result + first, floats);
    }
    at += from.step * bytes;
    result += kWidth;
  }
}

template <int kWidth>
static void widenWholePixels(DType type, const void *source,
                             const PixelChannels &from, float *result) {
  (type == DType::F32 ? widenWholePixels<DType::F32, kWidth>
   : type == DType::BF16
       ? widenWholePixels<DType::BF16, kWidth>
       : widenWholePixels<DType::F16, kWidth>)(source, from, result);
}

static bool widensWholePixels() {
  static const bool has = hostHasFeature("avx2") && hostHasFeature("f16c");
  return has;
}

/// Widens pixels one by one, for CPUs without masks.
static void widenPixelsOneByOne(DType type, const void *source,
                                const PixelChannels &from, float *result,
                                int64_t width) {
  const auto *at = static_cast<const std::byte *>(source);
  for (int64_t pixel = 0; pixel < from.pixels; ++pixel) {
    widen(type, at, result, from.channels);
    std::fill(result + from.channels, result + width, 0.0f);
    at += from.step * sizeOf(type);
    result += width;
  }
}

void widenPixels(DType type, const void *source, const PixelChannels &from,
                 float *result, int64_t width) {
  if (from.step == width && from.channels == width)
    return widen(type, source, result, from.pixels * width);
  if (hostHasAVX512())
    return (type == DType::F32 ? widenPixelsAVX512<DType::F32>
            : type == DType::BF16
                ? widenPixelsAVX512<DType::BF16>
                : widenPixelsAVX512<DType::F16>)(source, from, result, width);
  const bool isWhole = from.channels == width && widensWholePixels();
  if (isWhole && width == 16)
    return widenWholePixels<16>(type, source, from, result);
  if (isWhole && width == 8)
    return widenWholePixels<8>(type, source, from, result);
  widenPixelsOneByOne(type, source, from, result, width);
}

void narrowPixels(DType type, const float *source, int64_t width,
                  const PixelChannels &to, void *result) {
  if (to.channels == width && to.step == width)
    return narrow(type, source, result, to.pixels * width);
  if (type == DType::BF16 && width == 16 && hostHasAVX512())
    return narrowSixteens(source, to, static_cast<uint16_t *>(result));
  auto *at = static_cast<std::byte *>(result);
  for (int64_t pixel = 0; pixel < to.pixels; ++pixel) {
    narrow(type, source, at, to.channels);
    source += width;
    at += to.step * sizeOf(type);
  }
}

void widenGroups(DType type, const void *source, const PixelChannels &from,
                 int64_t groups, float *run, float *result,
                 const GroupLanes &to) {
  constexpr int64_t kLanes = GroupLanes::kLanes;
  if (from.channels == 1 && to.pixelStep == kLanes)
    return widenPixels(type, source, {from.pixels, groups, from.step}, result,
                       kLanes);
  const auto *at = static_cast<const std::byte *>(source);
  for (int64_t pixel = 0; pixel < from.pixels; ++pixel) {
    widen(type, at, run, groups * from.channels);
    for (int64_t channel = 0; channel < from.channels; ++channel) {
      float *lanes = result + channel * to.channelStep;
      for (int64_t group = 0; group < groups; ++group)
        lanes[group] = run[group * from.channels + channel];
      std::fill(lanes + groups, lanes + kLanes, 0.0f);
    }
    at += from.step * sizeOf(type);
    result += to.pixelStep;
  }
}

void copyPixels(const uint16_t *source, const PixelChannels &from,
                uint16_t *result, int64_t width) {
  if (from.step == width && from.channels == width) {
    std::copy_n(source, from.pixels * width, result);
    return;
  }
  if (hostHasAVX512())
    return copyPixelsAVX512(source, from, result, width);
  for (int64_t pixel = 0; pixel < from.pixels; ++pixel) {
    std::copy_n(source, from.channels, result);
    std::fill(result + from.channels, result + width, uint16_t(0));
    source += from.step;
    result += width;
  }
}

} // namespace mpc::runtime
