// Packs pairs of rows with vectors of 128 bits. oneDNN's own reorders into this
// layout take 1.0 ns an element for rows, and 1.6 ns for columns: a tenth of a
// transformer's step if AMX computes the products.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/PairedRows.h"
#include "runtime/cpu/Squares.h"

#include <algorithm>

namespace mpc::runtime {
namespace {

/// A block of the matrix: `rows` x `columns` elements from (row, column). In
/// the result, a pair of rows has `width` pairs of elements.
struct RowPairBlock {
  uint16_t *result;
  int64_t width;
  int64_t row, column, rows, columns;

  uint16_t *pairAt(int64_t pair, int64_t column) const {
    return result + (pair * width + column) * 2;
  }
};

} // namespace

/// Packs columns [first, last) of pair `pair` one by one.
static void pairElements(const StoredMatrix &source, const RowPairBlock &block,
                         int64_t pair, int64_t first, int64_t last) {
  const int64_t row = 2 * pair;
  for (int64_t column = first; column < last; ++column) {
    uint16_t *to = block.pairAt(pair, column);
    const bool inside = column < block.columns;
    for (int64_t i = 0; i < 2; ++i)
      to[i] = inside && row + i < block.rows
                  ? *source.at(block.row + row + i, block.column + column)
                  : uint16_t(0);
  }
}

/// Packs a block of a row-major matrix, eight elements of two rows at a time.
static void pairStoredRows(const StoredMatrix &source,
                           const RowPairBlock &block) {
  for (int64_t pair = 0; pair < PairedLayout::kBlockRows / 2; ++pair) {
    int64_t column = 0;
    if (2 * pair + 1 < block.rows) {
      const uint16_t *even = source.at(block.row + 2 * pair, block.column);
      const uint16_t *odd = even + source.leading;
      for (; column + 8 <= block.columns; column += 8) {
        const __m128i upper = loadVector(even + column);
        const __m128i lower = loadVector(odd + column);
        storeVector(block.pairAt(pair, column),
                    _mm_unpacklo_epi16(upper, lower));
        storeVector(block.pairAt(pair, column + 4),
                    _mm_unpackhi_epi16(upper, lower));
      }
    }
    pairElements(source, block, pair, column, block.width);
  }
}

/// Packs a block of a column-major matrix, in squares of four columns and four
/// pairs of rows. In a column, a pair of rows is already 32 adjacent bits. The
/// inner loop takes all pairs of a cache line.
static void pairStoredColumns(const StoredMatrix &source,
                              const RowPairBlock &block) {
  const int64_t wholePairs = block.rows / 8 * 4;
  const int64_t wholeColumns = block.columns / 4 * 4;
  for (int64_t column = 0; column < wholeColumns; column += 4)
    for (int64_t pair = 0; pair < wholePairs; pair += 4) {
      const uint16_t *from =
          source.at(block.row + 2 * pair, block.column + column);
      const int64_t next = source.leading;
      storeColumns(loadVector(from), loadVector(from + next),
                   loadVector(from + 2 * next), loadVector(from + 3 * next),
                   block.pairAt(pair, column), block.pairAt(pair + 1, column),
                   block.pairAt(pair + 2, column),
                   block.pairAt(pair + 3, column));
    }
  for (int64_t pair = 0; pair < PairedLayout::kBlockRows / 2; ++pair)
    pairElements(source, block, pair, pair < wholePairs ? wholeColumns : 0,
                 block.width);
}

void pairRows(const StoredMatrix &source, const PairedLayout &layout,
              int64_t firstBlock, int64_t lastBlock, uint16_t *result) {
  for (int64_t i = firstBlock; i < lastBlock; ++i)
    for (int64_t j = 0; j < layout.columnBlocks(); ++j) {
      RowPairBlock block;
      block.result =
          result + (j * layout.rowBlocks() + i) * layout.blockElements();
      block.width = layout.width;
      block.row = i * PairedLayout::kBlockRows;
      block.column = j * layout.width;
      block.rows = std::min(PairedLayout::kBlockRows, layout.rows - block.row);
      block.columns = std::min(layout.width, layout.columns - block.column);
      if (source.inColumns)
        pairStoredColumns(source, block);
      else
        pairStoredRows(source, block);
    }
}

} // namespace mpc::runtime
