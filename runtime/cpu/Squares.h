// Transposes squares of a matrix in registers, with the 128-bit vectors that
// every x86-64 has.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_SQUARES_H
#define MPC_RUNTIME_CPU_SQUARES_H

#include <immintrin.h>

namespace mpc::runtime {

inline __m128i loadVector(const void *source) {
  return _mm_loadu_si128(static_cast<const __m128i *>(source));
}

inline void storeVector(void *result, __m128i value) {
  _mm_storeu_si128(static_cast<__m128i *>(result), value);
}

/// Stores the columns of the square with the rows `a`, `b`, `c` and `d`, of
/// four 32-bit elements each.
inline void storeColumns(__m128i a, __m128i b, __m128i c, __m128i d,
                         void *first, void *second, void *third, void *last) {
  const __m128i low = _mm_unpacklo_epi32(a, b), high = _mm_unpackhi_epi32(a, b);
  const __m128i lowNext = _mm_unpacklo_epi32(c, d);
  const __m128i highNext = _mm_unpackhi_epi32(c, d);
  storeVector(first, _mm_unpacklo_epi64(low, lowNext));
  storeVector(second, _mm_unpackhi_epi64(low, lowNext));
  storeVector(third, _mm_unpacklo_epi64(high, highNext));
  storeVector(last, _mm_unpackhi_epi64(high, highNext));
}

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_SQUARES_H
