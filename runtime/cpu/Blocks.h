// Packs blocks of 32 x 32 16-bit elements, transposed or paired, with AVX-512.
// Also splits blocks of f32 into bf16 terms.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_BLOCKS_H
#define MPC_RUNTIME_CPU_BLOCKS_H

#include <cstdint>

namespace mpc::runtime {

/// The position of element (row, column) in a packed block.
enum class BlockOrder {
  InRows,        ///< row * 32 + column
  Turned,        ///< column * 32 + row
  PairedRows,    ///< (row / 2 * 32 + column) * 2 + row % 2
  PairedColumns, ///< (column / 2 * 32 + row) * 2 + column % 2
};

/// Rows or columns of a block, and elements of a block.
inline constexpr int64_t kBlockSide = 32;
inline constexpr int64_t kBlockElements = kBlockSide * kBlockSide;

/// Packs a block of 32 x 32 elements into `result`. `leading` is the leading
/// dimension of `source`. Requires AVX-512 (`hostHasAVX512`).
void packBlock(BlockOrder order, const uint16_t *source, int64_t leading,
               uint16_t *result);

/// Limits for the magnitude of an f32 number's first term. Within the limits,
/// none of the three terms is subnormal, which AMX would read as zero, and
/// products of two numbers are finite.
inline constexpr float kLeastSplit = 0x1p-102f, kGreatestSplit = 0x1p62f;

/// Splits a block of f32 into `terms` blocks of bf16, 2 or 3, one after the
/// other. The first block has the nearest bf16 numbers, each next block the
/// remainders. Three terms sum to the element exactly; magnitudes below 2^-134
/// count as zero. Returns false if a first term is neither zero nor in the
/// range above; `result` is then undefined.
bool splitBlock(BlockOrder order, const float *source, int64_t leading,
                int64_t terms, uint16_t *result);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_BLOCKS_H
