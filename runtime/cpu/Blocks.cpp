// Implements Blocks.h with AVX-512. A row of a block is 32 elements of 16 bits
// and fills one vector. Two adjacent 16-bit elements form one 32-bit element:
// pairs of columns are adjacent in memory, and pairs of rows are interleaved
// first. Then squares of 16 x 16 pairs are transposed in registers.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Blocks.h"
#include "runtime/FloatBits.h"
#include "runtime/cpu/CPUFeatures.h"

#include <cassert>
#include <cmath>
#include <immintrin.h>

namespace mpc::runtime {

#define MPC_BLOCK __attribute__((target("avx512f,avx512bw")))
#define MPC_BLOCK_INLINE                                                       \
  static inline __attribute__((always_inline, target("avx512f,avx512bw")))

static constexpr int64_t kSide = kBlockSide, kSquare = 16;

/// Transposes a square of 16 x 16 elements of 32 bits.
MPC_BLOCK_INLINE void turnSquare(__m512i (&rows)[kSquare]) {
  // Transpose squares of 2 x 2 elements, then of 4 x 4, within lanes of 128
  // bits.
  __m512i pairs[kSquare], quads[kSquare];
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    quads[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    quads[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    quads[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    quads[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  // Transpose whole lanes: lane l of quads[4 q + c] has rows 4 q to 4 q + 3 of
  // column 4 l + c.
  for (int c = 0; c < 4; ++c) {
    const __m512i low = _mm512_shuffle_i32x4(quads[c], quads[4 + c], 0x88);
    const __m512i high = _mm512_shuffle_i32x4(quads[c], quads[4 + c], 0xdd);
    const __m512i lowNext =
        _mm512_shuffle_i32x4(quads[8 + c], quads[12 + c], 0x88);
    const __m512i highNext =
        _mm512_shuffle_i32x4(quads[8 + c], quads[12 + c], 0xdd);
    rows[c] = _mm512_shuffle_i32x4(low, lowNext, 0x88);
    rows[8 + c] = _mm512_shuffle_i32x4(low, lowNext, 0xdd);
    rows[4 + c] = _mm512_shuffle_i32x4(high, highNext, 0x88);
    rows[12 + c] = _mm512_shuffle_i32x4(high, highNext, 0xdd);
  }
}

/// Interleaves two rows of 32 elements: a0, b0, a1, b1, ... `left` gets columns
/// 0 to 15, `right` gets columns 16 to 31.
MPC_BLOCK_INLINE void pairRow(const uint16_t *source, int64_t leading,
                              __m512i &left, __m512i &right) {
  // unpack interleaves within lanes of 128 bits. So first put columns 4 i to 4
  // i + 3 into the lower half of lane i, and columns 16 + 4 i to 19 + 4 i into
  // the upper half.
  const __m512i order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
  const __m512i even = _mm512_permutexvar_epi64(
      order, _mm512_loadu_si512(static_cast<const void *>(source)));
  const __m512i odd = _mm512_permutexvar_epi64(
      order, _mm512_loadu_si512(static_cast<const void *>(source + leading)));
  left = _mm512_unpacklo_epi16(even, odd);
  right = _mm512_unpackhi_epi16(even, odd);
}

MPC_BLOCK_INLINE void store(uint16_t *result, __m512i value) {
  _mm512_storeu_si512(static_cast<void *>(result), value);
}

MPC_BLOCK static void pairRowsOfBlock(const uint16_t *source, int64_t leading,
                                      uint16_t *result) {
  for (int64_t row = 0; row < kSide; row += 2) {
    __m512i left, right;
    pairRow(source + row * leading, leading, left, right);
    store(result + row * kSide, left);
    store(result + row * kSide + kSide, right);
  }
}

MPC_BLOCK static void pairColumnsOfBlock(const uint16_t *source,
                                         int64_t leading, uint16_t *result) {
  // Transpose 16 rows at a time. They fill half of each row of the result,
  // which has 32 pairs.
  for (int64_t first = 0; first < kSide; first += kSquare) {
    __m512i rows[kSquare];
    for (int64_t i = 0; i < kSquare; ++i)
      rows[i] = _mm512_loadu_si512(
          static_cast<const void *>(source + (first + i) * leading));
    turnSquare(rows);
    for (int64_t i = 0; i < kSquare; ++i)
      store(result + i * 2 * kSide + first * 2, rows[i]);
  }
}

MPC_BLOCK static void turnBlock(const uint16_t *source, int64_t leading,
                                uint16_t *result) {
  __m512i left[kSquare], right[kSquare];
  for (int64_t i = 0; i < kSquare; ++i)
    pairRow(source + 2 * i * leading, leading, left[i], right[i]);
  turnSquare(left);
  turnSquare(right);
  for (int64_t i = 0; i < kSquare; ++i) {
    store(result + i * kSide, left[i]);
    store(result + (kSquare + i) * kSide, right[i]);
  }
}

MPC_BLOCK static void copyBlock(const uint16_t *source, int64_t leading,
                                uint16_t *result) {
  for (int64_t row = 0; row < kSide; ++row)
    store(result + row * kSide, _mm512_loadu_si512(static_cast<const void *>(
                                    source + row * leading)));
}

void packBlock(BlockOrder order, const uint16_t *source, int64_t leading,
               uint16_t *result) {
  switch (order) {
  case BlockOrder::InRows:
    return copyBlock(source, leading, result);
  case BlockOrder::Turned:
    return turnBlock(source, leading, result);
  case BlockOrder::PairedRows:
    return pairRowsOfBlock(source, leading, result);
  case BlockOrder::PairedColumns:
    return pairColumnsOfBlock(source, leading, result);
  }
}

//===----------------------------------------------------------------------===//
// Sums of bf16 numbers
//===----------------------------------------------------------------------===//

/// Returns the next bf16 term of 16 floats, in the upper 16 bits of each lane,
/// and subtracts the term from `values`. A term is the nearest bf16 number; the
/// last term is the truncated remainder. To round, add half a unit of the last
/// place and clear the lower 16 bits.
MPC_BLOCK_INLINE __m512i takeTerm(__m512 &values, bool isLast) {
  if (isLast)
    return _mm512_castps_si512(values);
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i kept = _mm512_set1_epi32(int32_t(0xffff0000));
  const __m512i term = _mm512_and_si512(
      _mm512_add_epi32(_mm512_castps_si512(values), half), kept);
  values = _mm512_sub_ps(values, _mm512_castsi512_ps(term));
  return term;
}

/// The range of the first terms' magnitudes, as bits: the largest, and the
/// smallest nonzero magnitude less 1.
struct Magnitudes {
  __m512i largest, smallest;
};

MPC_BLOCK_INLINE void include(Magnitudes &magnitudes, __m512i firstTerms) {
  const __m512i bits = _mm512_and_si512(firstTerms, _mm512_set1_epi16(0x7fff));
  magnitudes.largest = _mm512_max_epu16(magnitudes.largest, bits);
  // Zero less 1 wraps around to the largest 16-bit number, so the minimum
  // ignores zero.
  magnitudes.smallest = _mm512_min_epu16(
      magnitudes.smallest, _mm512_sub_epi16(bits, _mm512_set1_epi16(1)));
}

/// Prefetches the two cache lines of 32 elements.
static inline void prefetch(const float *row) {
  _mm_prefetch(reinterpret_cast<const char *>(row), _MM_HINT_T0);
  _mm_prefetch(reinterpret_cast<const char *>(row + kSquare), _MM_HINT_T0);
}

/// True if all first terms are zero or in the range that can be split.
MPC_BLOCK_INLINE bool canBeSplit(const Magnitudes &magnitudes) {
  const auto least = int16_t(bitsOf(kLeastSplit) >> 16);
  const auto greatest = int16_t(bitsOf(kGreatestSplit) >> 16);
  return _mm512_cmpgt_epu16_mask(magnitudes.largest,
                                 _mm512_set1_epi16(greatest)) == 0 &&
         _mm512_cmplt_epu16_mask(magnitudes.smallest,
                                 _mm512_set1_epi16(int16_t(least - 1))) == 0;
}

/// Splits two vectors of 16 floats into `Terms` bf16 terms each. Term i of both
/// vectors is stored as one vector of 32 to block i of `result`: concatenated,
/// or interleaved if `InPairs`.
template <int Terms, bool InPairs>
MPC_BLOCK_INLINE void splitVector(__m512 first, __m512 second,
                                  Magnitudes &magnitudes, uint16_t *result) {
  alignas(64) static constexpr uint16_t kUpperHalves[kSide] = {
      1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
      33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  for (int term = 0; term < Terms; ++term) {
    const __m512i one = takeTerm(first, term == Terms - 1);
    const __m512i other = takeTerm(second, term == Terms - 1);
    const __m512i both =
        InPairs ? _mm512_or_si512(_mm512_srli_epi32(one, 16), other)
                : _mm512_permutex2var_epi16(
                      one, _mm512_load_si512(kUpperHalves), other);
    if (term == 0)
      include(magnitudes, both);
    store(result + term * kBlockElements, both);
  }
}

/// Splits a block of f32 into terms, which are stored in rows, or in pairs of
/// rows if `InPairs`. Returns false if a first term is out of range.
template <int Terms, bool InPairs>
MPC_BLOCK static bool splitRows(const float *source, int64_t leading,
                                uint16_t *result) {
  Magnitudes magnitudes = {_mm512_setzero_si512(), _mm512_set1_epi32(-1)};
  for (int64_t row = 0; row < kSide; row += 2) {
    const float *upper = source + row * leading, *lower = upper + leading;
    const __m512 a = _mm512_loadu_ps(upper);
    const __m512 b = _mm512_loadu_ps(upper + kSquare);
    const __m512 c = _mm512_loadu_ps(lower);
    const __m512 d = _mm512_loadu_ps(lower + kSquare);
    uint16_t *to = result + row * kSide;
    // Prefetch the block to the right, which the caller usually splits next.
    prefetch(upper + kSide);
    prefetch(lower + kSide);
    splitVector<Terms, InPairs>(a, InPairs ? c : b, magnitudes, to);
    splitVector<Terms, InPairs>(InPairs ? b : c, d, magnitudes, to + kSide);
  }
  return canBeSplit(magnitudes);
}

/// Returns the position of element (row, column) in the packed block.
static int64_t placeOf(BlockOrder order, int64_t row, int64_t column) {
  switch (order) {
  case BlockOrder::InRows:
    return row * kSide + column;
  case BlockOrder::Turned:
    return column * kSide + row;
  case BlockOrder::PairedRows:
    return (row / 2 * kSide + column) * 2 + row % 2;
  case BlockOrder::PairedColumns:
    return (column / 2 * kSide + row) * 2 + column % 2;
  }
  return 0;
}

/// Splits a block without AVX-512. Gives the same bits as splitRows.
static bool splitPortably(BlockOrder order, const float *source,
                          int64_t leading, int64_t terms, uint16_t *result) {
  for (int64_t row = 0; row < kSide; ++row)
    for (int64_t column = 0; column < kSide; ++column) {
      float rest = source[row * leading + column];
      uint16_t *to = result + placeOf(order, row, column);
      for (int64_t term = 0; term < terms; ++term, to += kBlockElements) {
        const uint32_t half = term + 1 < terms ? 0x8000 : 0;
        *to = uint16_t((bitsOf(rest) + half) >> 16);
        const float taken = bf16ToFloat(*to), magnitude = std::fabs(taken);
        if (term == 0 && taken != 0 &&
            !(magnitude >= kLeastSplit && magnitude <= kGreatestSplit))
          return false;
        rest -= taken;
      }
    }
  return true;
}

bool splitBlock(BlockOrder order, const float *source, int64_t leading,
                int64_t terms, uint16_t *result) {
  constexpr int64_t kMaxTerms = 3;
  assert(terms > 1 && terms <= kMaxTerms && "a block has two or three terms");
  if (!hostHasAVX512())
    return splitPortably(order, source, leading, terms, result);
  // Rows and paired rows are written directly.
  if (order == BlockOrder::PairedRows)
    return (terms == 2 ? splitRows<2, true>
                       : splitRows<3, true>)(source, leading, result);
  auto *split = terms == 2 ? splitRows<2, false> : splitRows<3, false>;
  if (order == BlockOrder::InRows)
    return split(source, leading, result);
  // Other orders are split into rows first, then packed term by term.
  alignas(64) uint16_t rows[kMaxTerms * kBlockElements];
  if (!split(source, leading, rows))
    return false;
  for (int64_t term = 0; term < terms; ++term)
    packBlock(order, rows + term * kBlockElements, kSide,
              result + term * kBlockElements);
  return true;
}

} // namespace mpc::runtime
