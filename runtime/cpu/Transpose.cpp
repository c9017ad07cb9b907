// Transposes squares that fit registers, with the 128-bit vectors that every
// x86-64 has. Loading cache lines takes more time than the instructions. So the
// loops finish one block of 32 x 32 elements before the next: all squares of a
// block share the same few cache lines of source and result.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Transpose.h"
#include "runtime/cpu/Squares.h"

#include <algorithm>

namespace mpc::runtime {

/// Rows and columns of a block. A row of a block is one cache line of 16-bit
/// elements, or two of 32-bit elements.
static constexpr int64_t kBlock = 32;

/// Transposes a square of 8 x 8.
static void transposeSquare(const uint16_t *source, int64_t from,
                            uint16_t *result, int64_t to) {
  // Interleave neighbouring rows: columns 0 to 3, then 4 to 7.
  __m128i pairs[2][4];
  for (int i = 0; i < 4; ++i) {
    const __m128i even = loadVector(source + 2 * i * from);
    const __m128i odd = loadVector(source + (2 * i + 1) * from);
    pairs[0][i] = _mm_unpacklo_epi16(even, odd);
    pairs[1][i] = _mm_unpackhi_epi16(even, odd);
  }
  for (auto &[a, b, c, d] : pairs) {
    storeColumns(a, b, c, d, result, result + to, result + 2 * to,
                 result + 3 * to);
    result += 4 * to;
  }
}

/// Transposes a square of 4 x 4.
static void transposeSquare(const uint32_t *source, int64_t from,
                            uint32_t *result, int64_t to) {
  storeColumns(loadVector(source), loadVector(source + from),
               loadVector(source + 2 * from), loadVector(source + 3 * from),
               result, result + to, result + 2 * to, result + 3 * to);
}

template <typename T>
static void transposeBlock(const T *source, int64_t from, T *result, int64_t to,
                           int64_t rows, int64_t columns) {
  constexpr int64_t kSide = 16 / sizeof(T);
  // Transpose whole squares, then the rest at either edge element by element.
  const int64_t wholeRows = rows / kSide * kSide;
  const int64_t wholeColumns = columns / kSide * kSide;
  for (int64_t column = 0; column < wholeColumns; column += kSide)
    for (int64_t row = 0; row < wholeRows; row += kSide)
      transposeSquare(source + row * from + column, from,
                      result + column * to + row, to);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = row < wholeRows ? wholeColumns : 0; column < columns;
         ++column)
      result[column * to + row] = source[row * from + column];
}

template <typename T>
static void transposeBlocks(const T *source, int64_t from, T *result,
                            int64_t to, int64_t rows, int64_t columns) {
  for (int64_t column = 0; column < columns; column += kBlock)
    for (int64_t row = 0; row < rows; row += kBlock)
      transposeBlock(
          source + row * from + column, from, result + column * to + row, to,
          std::min(kBlock, rows - row), std::min(kBlock, columns - column));
}

void transpose(const uint16_t *source, int64_t sourceLeading, uint16_t *result,
               int64_t resultLeading, int64_t rows, int64_t columns) {
  transposeBlocks(source, sourceLeading, result, resultLeading, rows, columns);
}

void transpose(const uint32_t *source, int64_t sourceLeading, uint32_t *result,
               int64_t resultLeading, int64_t rows, int64_t columns) {
  transposeBlocks(source, sourceLeading, result, resultLeading, rows, columns);
}

} // namespace mpc::runtime
