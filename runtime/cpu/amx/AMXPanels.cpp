// Uses the eight tile registers like this: four hold a block of 32 x 32 sums,
// two a step of the left panel, two a step of the right panel. So four loaded
// tiles give four tile products of 16 cycles each. From L2 alone, a step takes
// longer to load than to multiply. So some steps of a right panel stay in L1
// while all rows pass. Three terms give 24 products for 14 loaded tiles.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/amx/AMXPanels.h"
#include "runtime/FloatBits.h"
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/PairedRows.h"
#include "runtime/cpu/Transpose.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <immintrin.h>

namespace mpc::runtime {

#define MPC_AMX __attribute__((target("avx512f,amx-tile,amx-bf16")))
#define MPC_AMX_INLINE                                                         \
  static inline                                                                \
      __attribute__((always_inline, target("avx512f,amx-tile,amx-bf16")))

/// Rows or columns of a tile register, and bytes of a tile row.
static constexpr int64_t kTileWidth = 16, kTileRowBytes = 64;

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

namespace {

/// The block of a matrix that one panel step reads: `rows` x `columns` elements
/// from (`row`, `column`). The block is smaller than 32 x 32 at the edges.
struct StepExtent {
  int64_t row, column, rows, columns;

  bool isWhole() const { return rows == kPanelWidth && columns == kPanelWidth; }
};

} // namespace

/// The order in which packBlock stores the blocks of a left (or right) operand,
/// so that tile registers can load the blocks.
static BlockOrder leftOrderOf(const PanelSource &source) {
  return source.inColumns ? BlockOrder::Turned : BlockOrder::InRows;
}
static BlockOrder rightOrderOf(const PanelSource &source) {
  return source.inColumns ? BlockOrder::PairedColumns : BlockOrder::PairedRows;
}

/// Packs a step of a left panel in bf16, filled up with zeros.
static void packLeftStep(const PanelSource &source, const StepExtent &extent,
                         uint16_t *to) {
  const auto *from =
      reinterpret_cast<const uint16_t *>(source.at(extent.row, extent.column));
  if (extent.isWhole() && hostHasAVX512())
    return packBlock(leftOrderOf(source), from, source.leading, to);
  std::memset(to, 0, kTermBytes);
  if (source.inColumns)
    return transpose(from, source.leading, to, kPanelWidth, extent.columns,
                     extent.rows);
  for (int64_t i = 0; i < extent.rows; ++i)
    std::memcpy(to + i * kPanelWidth, from + i * source.leading,
                size_t(extent.columns) * sizeof(uint16_t));
}

/// Packs a step of a right panel in bf16, filled up with zeros.
static void packRightStep(const PanelSource &source, const StepExtent &extent,
                          uint16_t *to) {
  const auto *from =
      reinterpret_cast<const uint16_t *>(source.at(extent.row, extent.column));
  if (extent.isWhole() && hostHasAVX512())
    return packBlock(rightOrderOf(source), from, source.leading, to);
  pairRows({from, source.leading, source.inColumns},
           {extent.rows, extent.columns, kPanelWidth}, 0, 1, to);
}

/// Widens a step to f32 in the stored order: 32 rows or columns of 32 elements,
/// filled up with zeros.
static void widenStep(const PanelSource &source, const StepExtent &extent,
                      float *result) {
  if (!extent.isWhole())
    std::fill_n(result, kBlockElements, 0.0f);
  const int64_t lines = source.inColumns ? extent.columns : extent.rows;
  const int64_t length = source.inColumns ? extent.rows : extent.columns;
  const std::byte *from = source.at(extent.row, extent.column);
  const int64_t bytes = source.leading * int64_t(sizeOf(source.type));
  for (int64_t line = 0; line < lines; ++line)
    widen(source.type, from + line * bytes, result + line * kPanelWidth,
          length);
}

/// Splits a step into bf16 terms, and packs the terms. Returns false, and
/// writes zeros, if no terms represent an element.
static bool packTermsOfStep(const PanelSource &source, const StepExtent &extent,
                            BlockOrder order, int64_t terms, uint16_t *to) {
  alignas(64) float widened[kBlockElements];
  const auto *from =
      reinterpret_cast<const float *>(source.at(extent.row, extent.column));
  int64_t leading = source.leading;
  if (source.type != DType::F32 || !extent.isWhole()) {
    widenStep(source, extent, widened);
    from = widened;
    leading = kPanelWidth;
  }
  if (splitBlock(order, from, leading, terms, to))
    return true;
  std::memset(to, 0, size_t(terms * kTermBytes));
  return false;
}

/// Packs all steps of all panels, in the order in which the matrix is stored:
/// step by step if `isStoredByDepth`, otherwise panel by panel.
/// `extentOf(panel, step)` returns the block of a step. `packStep` packs a step
/// in bf16; a step with several terms is packed in `order`. Returns true if a
/// step was left out.
template <typename ExtentOf>
static bool packSteps(const PanelSource &source, int64_t panels, int64_t steps,
                      bool isStoredByDepth, BlockOrder order,
                      const Panels &result, ExtentOf extentOf,
                      void (*packStep)(const PanelSource &, const StepExtent &,
                                       uint16_t *)) {
  bool leftOut = false;
  auto pack = [&](int64_t panel, int64_t step) {
    const StepExtent extent = extentOf(panel * kPanelWidth, step * kPanelWidth);
    const int64_t index = panel * steps + step;
    auto *to = reinterpret_cast<uint16_t *>(result.data +
                                            index * result.terms * kTermBytes);
    // bf16 is copied. Splitting f32 may fail, since terms do not represent all
    // numbers.
    if (result.terms == 1)
      return packStep(source, extent, to);
    const bool could = packTermsOfStep(source, extent, order, result.terms, to);
    result.isLeftOut[index] = !could;
    leftOut |= !could;
  };
  // Follow the order of memory, so that each cache line is read once. If the
  // matrix is stored by depth, a stored row holds one step of all panels;
  // otherwise, a stored row holds all steps of one panel.
  if (isStoredByDepth) {
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t panel = 0; panel < panels; ++panel)
        pack(panel, step);
    return leftOut;
  }
  for (int64_t panel = 0; panel < panels; ++panel)
    for (int64_t step = 0; step < steps; ++step)
      pack(panel, step);
  return leftOut;
}

bool packLeftPanels(const PanelSource &source, int64_t rows, int64_t depth,
                    const Panels &result) {
  auto extentOf = [&](int64_t row, int64_t k) {
    return StepExtent{row, k, std::min(kPanelWidth, rows - row),
                      std::min(kPanelWidth, depth - k)};
  };
  return packSteps(source, panelsOf(rows), panelsOf(depth), source.inColumns,
                   leftOrderOf(source), result, extentOf, packLeftStep);
}

bool packRightPanels(const PanelSource &source, int64_t depth, int64_t columns,
                     const Panels &result) {
  auto extentOf = [&](int64_t column, int64_t k) {
    return StepExtent{k, column, std::min(kPanelWidth, depth - k),
                      std::min(kPanelWidth, columns - column)};
  };
  return packSteps(source, panelsOf(columns), panelsOf(depth),
                   !source.inColumns, rightOrderOf(source), result, extentOf,
                   packRightStep);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

namespace {

/// The operand of `ldtilecfg`.
struct TileConfig {
  uint8_t palette = 1, startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t rowBytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

/// A block of sums, and the steps of two panels whose product is added to it.
struct SumsBlock {
  LeftOperand left; ///< from the first row of the block on
  const std::byte *right;
  int64_t steps;
  float *sums;
  int64_t leading;
  bool isFirst;      ///< the sums start at zero
  const float *next; ///< sums of the next block, to prefetch
};

/// A product of one term of the left and one term of the right operand. Term 0
/// is the greatest.
struct TermPair {
  int left, right;

  bool operator==(const TermPair &other) const {
    return left == other.left && right == other.right;
  }
};

/// The pairs of terms to multiply. The products are added in this order,
/// beginning with the smallest. Each pair shares an operand with the pair
/// before, so the operand is not loaded again. Of the nine products of three
/// terms, only six are computed; the other three are at most 2^-24 of the sum
/// of all nine.
template <int Terms>
struct TermPairs;
template <>
struct TermPairs<1> {
  static constexpr std::array<TermPair, 1> all = {{{0, 0}}};
};
template <>
struct TermPairs<2> {
  static constexpr std::array<TermPair, 4> all = {
      {{1, 0}, {1, 1}, {0, 1}, {0, 0}}};
};
template <>
struct TermPairs<3> {
  static constexpr std::array<TermPair, 6> all = {
      {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}}};
};

} // namespace

/// Adds the products of a step's terms from pair number Pair on. Tiles 0 to 3
/// hold the sums, 4 and 5 the left operand, 6 and 7 the right operand. Without
/// BothRows or BothColumns, the second tile of that operand is unused.
template <int Terms, bool BothRows, bool BothColumns, size_t Pair = 0>
MPC_AMX_INLINE void multiplyStep(const std::byte *left, int64_t leftRow,
                                 int64_t leftTerm, const std::byte *right) {
  constexpr auto &pairs = TermPairs<Terms>::all;
  if constexpr (Pair < pairs.size()) {
    // A term that the pair before used is still in its tile.
    constexpr TermPair pair = pairs[Pair], before = pairs[Pair ? Pair - 1 : 0];
    if constexpr (Pair == 0 || pair.left != before.left) {
      const std::byte *term = left + pair.left * leftTerm;
      _tile_loadd(4, term, leftRow);
      if constexpr (BothRows)
        _tile_loadd(5, term + kTileWidth * leftRow, leftRow);
    }
    // Tiles 6 and 7 hold 16 columns each of the right operand, in pairs of rows
    // as the instruction requires.
    if constexpr (Pair == 0 || pair.right != before.right) {
      const std::byte *term = right + pair.right * kTermBytes;
      _tile_loadd(6, term, 2 * kTileRowBytes);
      if constexpr (BothColumns)
        _tile_loadd(7, term + kTileRowBytes, 2 * kTileRowBytes);
    }
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (BothColumns)
      _tile_dpbf16ps(1, 4, 7);
    if constexpr (BothRows)
      _tile_dpbf16ps(2, 5, 6);
    if constexpr (BothRows && BothColumns)
      _tile_dpbf16ps(3, 5, 7);
    multiplyStep<Terms, BothRows, BothColumns, Pair + 1>(left, leftRow,
                                                         leftTerm, right);
  }
}

/// In each step, prefetches a few rows of the next block's sums; after all
/// steps of a chunk, all rows are in the cache. Otherwise the next block would
/// wait for memory.
template <int Terms>
MPC_AMX_INLINE void prefetchSums(const SumsBlock &block, int64_t step) {
  constexpr int64_t rows = kPanelWidth / chunkStepsOf(Terms);
  for (int64_t row = step * rows; row < (step + 1) * rows; ++row) {
    const float *sums = block.next + row * block.leading;
    _mm_prefetch(reinterpret_cast<const char *>(sums), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char *>(sums + kTileWidth),
                 _MM_HINT_T0);
  }
}

template <int Terms, bool BothRows, bool BothColumns>
MPC_AMX static void multiplyBlock(const SumsBlock &block) {
  const int64_t sumsRow = block.leading * int64_t(sizeof(float));
  float *sums = block.sums;
  float *lower = sums + kTileWidth * block.leading;

  if (block.isFirst) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, sumsRow);
    if constexpr (BothColumns)
      _tile_loadd(1, sums + kTileWidth, sumsRow);
    if constexpr (BothRows)
      _tile_loadd(2, lower, sumsRow);
    if constexpr (BothRows && BothColumns)
      _tile_loadd(3, lower + kTileWidth, sumsRow);
  }

  // The sums stay in tiles over all steps of the depth.
  const std::byte *left = block.left.data, *right = block.right;
  for (int64_t step = 0; step < block.steps; ++step) {
    prefetchSums<Terms>(block, step);
    multiplyStep<Terms, BothRows, BothColumns>(left, block.left.row,
                                               block.left.term, right);
    left += block.left.step;
    right += Terms * kTermBytes;
  }

  _tile_stored(0, sums, sumsRow);
  if constexpr (BothColumns)
    _tile_stored(1, sums + kTileWidth, sumsRow);
  if constexpr (BothRows)
    _tile_stored(2, lower, sumsRow);
  if constexpr (BothRows && BothColumns)
    _tile_stored(3, lower + kTileWidth, sumsRow);
}

template <int Terms>
MPC_AMX static void multiplyParts(const LeftOperand &left,
                                  const std::byte *right, int64_t steps,
                                  const ProductSums &sums, bool isFirst) {
  for (int64_t column = 0; column < sums.columns; column += kPanelWidth) {
    // At the edges, a block may have only 16 rows or columns, and then uses
    // half of the tiles.
    const bool bothColumns = sums.columns - column > kTileWidth;
    SumsBlock block{left,         right,   steps,  sums.data + column,
                    sums.leading, isFirst, nullptr};
    for (int64_t row = 0; row < sums.rows; row += kPanelWidth) {
      // Prefetch the block below, or the first block of the next columns. After
      // the last block there is none, but prefetching any address is safe.
      const bool isLast = row + kPanelWidth >= sums.rows;
      block.next = isLast ? sums.data + column + kPanelWidth
                          : block.sums + kPanelWidth * sums.leading;
      if (sums.rows - row > kTileWidth)
        bothColumns ? multiplyBlock<Terms, true, true>(block)
                    : multiplyBlock<Terms, true, false>(block);
      else
        bothColumns ? multiplyBlock<Terms, false, true>(block)
                    : multiplyBlock<Terms, false, false>(block);
      block.left.data += left.panel;
      block.sums += kPanelWidth * sums.leading;
    }
    // The next panel follows all steps of this panel.
    right += steps * Terms * kTermBytes;
  }
}

MPC_AMX void multiplyPanels(const LeftOperand &left, const Panels &right,
                            int64_t steps, const ProductSums &sums,
                            bool isFirst) {
  // All tiles have full size. The barrier makes earlier stores visible to the
  // tile loads.
  TileConfig config;
  std::fill_n(config.rowBytes, 8, uint16_t(kTileRowBytes));
  std::fill_n(config.rows, 8, uint8_t(kTileWidth));
  __asm__ volatile("" ::: "memory");
  _tile_loadconfig(&config);

  auto *multiply = right.terms == 1   ? multiplyParts<1>
                   : right.terms == 2 ? multiplyParts<2>
                                      : multiplyParts<3>;
  multiply(left, right.data, steps, sums, isFirst);

  // Without tiles in use, a thread switch saves 8 KiB less.
  _tile_release();
  __asm__ volatile("" ::: "memory");
}

/// Returns element `place` of a block as the sum of its terms. The terms are
/// `terms` blocks, `distance` bytes apart, from `block` on.
static float sumOfParts(const std::byte *block, int64_t distance, int64_t place,
                        int64_t terms) {
  float sum = 0;
  for (int64_t term = terms; term-- > 0;)
    sum += bf16ToFloat(
        reinterpret_cast<const uint16_t *>(block + term * distance)[place]);
  return sum;
}

void multiplyPanelsPortably(const LeftOperand &left, const Panels &right,
                            int64_t steps, const ProductSums &sums,
                            bool isFirst) {
  // Reads the packed operands of the AMX code, one element at a time.
  const int64_t stepBytes = right.terms * kTermBytes;
  for (int64_t i = 0; i < sums.rows; ++i)
    for (int64_t j = 0; j < sums.columns; ++j) {
      float &sum = sums.data[i * sums.leading + j];
      if (isFirst)
        sum = 0;
      for (int64_t k = 0; k < steps * kPanelWidth; ++k) {
        // Columns of the right operand are stored in pairs of rows: k and k + 1
        // are adjacent.
        const int64_t step = k / kPanelWidth, inStep = k % kPanelWidth;
        const std::byte *a = left.data + i / kPanelWidth * left.panel +
                             i % kPanelWidth * left.row + step * left.step;
        const std::byte *b =
            right.data + (j / kPanelWidth * steps + step) * stepBytes;
        const int64_t place =
            (inStep / 2 * kPanelWidth + j % kPanelWidth) * 2 + inStep % 2;
        sum += sumOfParts(a, left.term, inStep, right.terms) *
               sumOfParts(b, kTermBytes, place, right.terms);
      }
    }
}

/// Widens a step of either operand to f32, in rows.
static void widenInRows(const PanelSource &source, const StepExtent &extent,
                        float *result) {
  if (!source.inColumns)
    return widenStep(source, extent, result);
  alignas(64) float turned[kBlockElements];
  widenStep(source, extent, turned);
  transpose(reinterpret_cast<const uint32_t *>(turned), kPanelWidth,
            reinterpret_cast<uint32_t *>(result), kPanelWidth, kPanelWidth,
            kPanelWidth);
}

/// Adds the f32 product of `rows` x 32 and 32 x 32 elements to `sums`. Written
/// for the compiler's vectorizer: a row of sums stays in registers.
static inline __attribute__((always_inline)) void
addProduct(const float *left, const float *right, int64_t rightLeading,
           float *sums, int64_t leading, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    float row[kPanelWidth];
    std::copy_n(sums + i * leading, kPanelWidth, row);
    for (int64_t k = 0; k < kPanelWidth; ++k)
      for (int64_t j = 0; j < kPanelWidth; ++j)
        row[j] += left[i * kPanelWidth + k] * right[k * rightLeading + j];
    std::copy_n(row, kPanelWidth, sums + i * leading);
  }
}

__attribute__((target("avx512f"))) static void
addProductAVX512(const float *left, const float *right, int64_t rightLeading,
                 float *sums, int64_t leading, int64_t rows) {
  addProduct(left, right, rightLeading, sums, leading, rows);
}

static void addProductBaseline(const float *left, const float *right,
                               int64_t rightLeading, float *sums,
                               int64_t leading, int64_t rows) {
  addProduct(left, right, rightLeading, sums, leading, rows);
}

void addBlockProduct(const float *left, const float *right,
                     int64_t rightLeading, float *sums, int64_t leading,
                     int64_t rows) {
  (hostHasAVX512() ? addProductAVX512 : addProductBaseline)(
      left, right, rightLeading, sums, leading, rows);
}

void multiplyLeftOut(const PanelSource &left, const PanelSource &right,
                     const bool *leftOutOfLeft, const bool *leftOutOfRight,
                     int64_t depth, const ProductSums &sums) {
  alignas(64) float leftBlock[kBlockElements], rightBlock[kBlockElements];
  const int64_t steps = panelsOf(depth);
  for (int64_t row = 0; row < sums.rows; row += kPanelWidth)
    for (int64_t column = 0; column < sums.columns; column += kPanelWidth)
      for (int64_t step = 0; step < steps; ++step) {
        // If terms represent both blocks, multiplyPanels has already added the
        // product.
        if (!leftOutOfLeft[row / kPanelWidth * steps + step] &&
            !leftOutOfRight[column / kPanelWidth * steps + step])
          continue;
        const int64_t k = step * kPanelWidth;
        const int64_t rows = std::min(kPanelWidth, sums.rows - row);
        const int64_t columns = std::min(kPanelWidth, sums.columns - column);
        const int64_t deep = std::min(kPanelWidth, depth - k);
        widenInRows(left, {row, k, rows, deep}, leftBlock);
        widenInRows(right, {k, column, deep, columns}, rightBlock);
        addBlockProduct(leftBlock, rightBlock, kPanelWidth,
                        sums.data + row * sums.leading + column, sums.leading,
                        rows);
      }
}

} // namespace mpc::runtime
