// A block of 32 x 32 sums is four of the eight tiles of registers; two more
// hold a step of the left operand's panel and two of the right one's: four
// products of tiles, of 16 cycles each, for four tiles that are loaded. From a
// core's L2 alone a step takes longer to load than to multiply, so eight steps
// of a right panel stay in L1 while all rows pass by.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/AMXPanels.h"
#include "runtime/FloatBits.h"
#include "runtime/cpu/Blocks.h"
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/Transpose.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

namespace mpc::runtime {

#define MPC_AMX __attribute__((target("avx512f,amx-tile,amx-bf16")))

/// Rows or columns of a tile of registers, and bytes of one of its rows.
static constexpr int64_t kTileWidth = 16, kTileRowBytes = 64;

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

/// A step of a left panel: `rows` x `columns` elements, and zeros.
static void packLeftStep(const StoredMatrix &source, int64_t row,
                         int64_t column, int64_t rows, int64_t columns,
                         uint16_t *to) {
  const uint16_t *from = source.at(row, column);
  const bool isWhole = rows == kPanelWidth && columns == kPanelWidth;
  if (isWhole && source.inColumns && hostHasAVX512())
    return packBlock(BlockOrder::Turned, from, source.leading, to);
  if (!isWhole)
    std::memset(to, 0, kPanelStepBytes);
  if (source.inColumns)
    return transpose(from, source.leading, to, kPanelWidth, columns, rows);
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(to + i * kPanelWidth, from + i * source.leading,
                size_t(columns) * sizeof(uint16_t));
}

/// A step of a right panel, likewise.
static void packRightStep(const StoredMatrix &source, int64_t row,
                          int64_t column, int64_t rows, int64_t columns,
                          uint16_t *to) {
  const uint16_t *from = source.at(row, column);
  if (rows == kPanelWidth && columns == kPanelWidth && hostHasAVX512())
    return packBlock(source.inColumns ? BlockOrder::PairedColumns
                                      : BlockOrder::PairedRows,
                     from, source.leading, to);
  pairRows({from, source.leading, source.inColumns},
           {rows, columns, kPanelWidth}, 0, 1, to);
}

/// Calls `packStep(panel, step, to)` in the order in which rows are stored: of
/// the depth, or of panels.
template <typename PackStep>
static void packSteps(int64_t panels, int64_t steps, bool isStoredByDepth,
                      std::byte *result, PackStep packStep) {
  auto pack = [&](int64_t panel, int64_t step) {
    packStep(panel * kPanelWidth, step * kPanelWidth,
             reinterpret_cast<uint16_t *>(result + (panel * steps + step) *
                                                       kPanelStepBytes));
  };
  if (isStoredByDepth) {
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t panel = 0; panel < panels; ++panel)
        pack(panel, step);
    return;
  }
  for (int64_t panel = 0; panel < panels; ++panel)
    for (int64_t step = 0; step < steps; ++step)
      pack(panel, step);
}

void packLeftPanels(const StoredMatrix &source, int64_t rows, int64_t depth,
                    std::byte *result) {
  packSteps(panelsOf(rows), panelsOf(depth), source.inColumns, result,
            [&](int64_t row, int64_t k, uint16_t *to) {
              packLeftStep(source, row, k, std::min(kPanelWidth, rows - row),
                           std::min(kPanelWidth, depth - k), to);
            });
}

void packRightPanels(const StoredMatrix &source, int64_t depth, int64_t columns,
                     std::byte *result) {
  packSteps(panelsOf(columns), panelsOf(depth), !source.inColumns, result,
            [&](int64_t column, int64_t k, uint16_t *to) {
              packRightStep(source, k, column, std::min(kPanelWidth, depth - k),
                            std::min(kPanelWidth, columns - column), to);
            });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

namespace {

/// What `ldtilecfg` reads.
struct TileConfig {
  uint8_t palette = 1, startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t rowBytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

/// A block of sums and the steps of two panels that are added to it.
struct SumsBlock {
  const std::byte *left, *right;
  int64_t leftRow, leftStep, steps;
  float *sums;
  int64_t leading;
  bool isFirst; ///< there are no sums yet
};

} // namespace

/// Tiles 0 to 3 are the sums, 4 and 5 of the left operand, 6 and 7 of the
/// right. Where fewer rows or columns are wanted the second of either is left
/// out.
template <bool BothRows, bool BothColumns>
MPC_AMX static void multiplyBlock(const SumsBlock &block) {
  const int64_t sumsRow = block.leading * int64_t(sizeof(float));
  float *sums = block.sums;
  float *lower = sums + kTileWidth * block.leading;

  // The sums so far.
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

  const std::byte *left = block.left, *right = block.right;
  for (int64_t step = 0; step < block.steps; ++step) {
    _tile_loadd(4, left, block.leftRow);
    _tile_loadd(6, right, 2 * kTileRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (BothColumns) {
      _tile_loadd(7, right + kTileRowBytes, 2 * kTileRowBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (BothRows) {
      _tile_loadd(5, left + kTileWidth * block.leftRow, block.leftRow);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (BothRows && BothColumns)
      _tile_dpbf16ps(3, 5, 7);
    left += block.leftStep;
    right += kPanelStepBytes;
  }

  // The sums now.
  _tile_stored(0, sums, sumsRow);
  if constexpr (BothColumns)
    _tile_stored(1, sums + kTileWidth, sumsRow);
  if constexpr (BothRows)
    _tile_stored(2, lower, sumsRow);
  if constexpr (BothRows && BothColumns)
    _tile_stored(3, lower + kTileWidth, sumsRow);
}

MPC_AMX void multiplyPanels(const LeftOperand &left, const std::byte *right,
                            int64_t steps, const ProductSums &sums,
                            bool isFirst) {
  // All tiles are whole. What was stored before is read by them.
  TileConfig config;
  std::fill_n(config.rowBytes, 8, uint16_t(kTileRowBytes));
  std::fill_n(config.rows, 8, uint8_t(kTileWidth));
  __asm__ volatile("" ::: "memory");
  _tile_loadconfig(&config);

  for (int64_t column = 0; column < sums.columns; column += kPanelWidth) {
    const bool bothColumns = sums.columns - column > kTileWidth;
    SumsBlock block{left.data,    right,  left.row,
                    left.step,    steps,  sums.data + column,
                    sums.leading, isFirst};
    for (int64_t row = 0; row < sums.rows; row += kPanelWidth) {
      if (sums.rows - row > kTileWidth)
        bothColumns ? multiplyBlock<true, true>(block)
                    : multiplyBlock<true, false>(block);
      else
        bothColumns ? multiplyBlock<false, true>(block)
                    : multiplyBlock<false, false>(block);
      block.left += left.panel;
      block.sums += kPanelWidth * sums.leading;
    }
    right += steps * kPanelStepBytes;
  }

  // Without tiles in use a change of threads has 8 KiB less to save.
  _tile_release();
  __asm__ volatile("" ::: "memory");
}

void multiplyPanelsPortably(const LeftOperand &left, const std::byte *right,
                            int64_t steps, const ProductSums &sums,
                            bool isFirst) {
  auto element = [](const std::byte *at, int64_t index) {
    return bf16ToFloat(reinterpret_cast<const uint16_t *>(at)[index]);
  };
  for (int64_t i = 0; i < sums.rows; ++i)
    for (int64_t j = 0; j < sums.columns; ++j) {
      float &sum = sums.data[i * sums.leading + j];
      if (isFirst)
        sum = 0;
      for (int64_t k = 0; k < steps * kPanelWidth; ++k) {
        const int64_t step = k / kPanelWidth, inStep = k % kPanelWidth;
        const std::byte *a = left.data + i / kPanelWidth * left.panel +
                             i % kPanelWidth * left.row + step * left.step;
        const std::byte *b =
            right + (j / kPanelWidth * steps + step) * kPanelStepBytes;
        sum += element(a, inStep) *
               element(b, (inStep / 2 * kPanelWidth + j % kPanelWidth) * 2 +
                              inStep % 2);
      }
    }
}

} // namespace mpc::runtime
