// The compiler vectorizes each loop for the baseline, for AVX2, and the
// rounding to bf16 also for AVX-512. f16 uses F16C instructions if the CPU has
// them.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Convert.h"
#include "runtime/FloatBits.h"
#include "runtime/cpu/CPUFeatures.h"

#include <immintrin.h>

namespace mpc::runtime {

// Each loop body is inlined into one function per instruction set.
#define MPC_INLINE static inline __attribute__((always_inline))
#define MPC_AVX2 __attribute__((target("avx2,f16c")))
#define MPC_WIDE __attribute__((target("avx512f,avx512bw")))

MPC_INLINE void widenBF16Body(const uint16_t *source, float *result,
                              int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    result[i] = bf16ToFloat(source[i]);
}

MPC_INLINE void narrowBF16Body(const float *source, uint16_t *result,
                               int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    result[i] = floatToBF16(source[i]);
}

static void widenBF16(const uint16_t *source, float *result, int64_t count) {
  widenBF16Body(source, result, count);
}

MPC_AVX2 static void widenBF16AVX2(const uint16_t *source, float *result,
                                   int64_t count) {
  widenBF16Body(source, result, count);
}

static void narrowBF16(const float *source, uint16_t *result, int64_t count) {
  narrowBF16Body(source, result, count);
}

MPC_AVX2 static void narrowBF16AVX2(const float *source, uint16_t *result,
                                    int64_t count) {
  narrowBF16Body(source, result, count);
}

MPC_WIDE static void narrowBF16AVX512(const float *source, uint16_t *result,
                                      int64_t count) {
  narrowBF16Body(source, result, count);
}

static void widenF16(const uint16_t *source, float *result, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    result[i] = f16ToFloat(source[i]);
}

MPC_AVX2 static void widenF16AVX2(const uint16_t *source, float *result,
                                  int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m128i half =
        _mm_loadu_si128(reinterpret_cast<const __m128i *>(source + i));
    _mm256_storeu_ps(result + i, _mm256_cvtph_ps(half));
  }
  widenF16(source + i, result + i, count - i);
}

static void narrowF16(const float *source, uint16_t *result, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    result[i] = floatToF16(source[i]);
}

MPC_AVX2 static void narrowF16AVX2(const float *source, uint16_t *result,
                                   int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m128i half =
        _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(result + i), half);
  }
  narrowF16(source + i, result + i, count - i);
}

static bool hasAVX2() {
  static const bool has = hostHasFeature("avx2") && hostHasFeature("f16c");
  return has;
}

void widen(DType type, const void *source, float *result, int64_t count) {
  const auto *half = static_cast<const uint16_t *>(source);
  if (type == DType::F32)
    std::memcpy(result, source, static_cast<size_t>(count) * sizeof(float));
  else if (type == DType::BF16)
    (hasAVX2() ? widenBF16AVX2 : widenBF16)(half, result, count);
  else
    (hasAVX2() ? widenF16AVX2 : widenF16)(half, result, count);
}

void narrow(DType type, const float *source, void *result, int64_t count) {
  auto *half = static_cast<uint16_t *>(result);
  if (type == DType::F32)
    std::memcpy(result, source, static_cast<size_t>(count) * sizeof(float));
  else if (type == DType::BF16)
    (hostHasAVX512() ? narrowBF16AVX512
     : hasAVX2()     ? narrowBF16AVX2
                     : narrowBF16)(source, half, count);
  else
    (hasAVX2() ? narrowF16AVX2 : narrowF16)(source, half, count);
}

MPC_INLINE void scaleBody(float *values, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i)
    values[i] *= factor;
}

static void scaleBaseline(float *values, int64_t count, float factor) {
  scaleBody(values, count, factor);
}

MPC_WIDE static void scaleAVX512(float *values, int64_t count, float factor) {
  scaleBody(values, count, factor);
}

void scale(float *values, int64_t count, float factor) {
  (hostHasAVX512() ? scaleAVX512 : scaleBaseline)(values, count, factor);
}

} // namespace mpc::runtime
