// Blocks of 32 x 32 elements of 16 bits, turned and paired, by AVX-512; and
// blocks of f32, each element as a sum of bf16 numbers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_BLOCKS_H
#define MPC_RUNTIME_CPU_BLOCKS_H

#include <cstdint>

namespace mpc::runtime {

/// Where element (row, column) of a block goes in the packed one.
enum class BlockOrder {
  InRows,        ///< row * 32 + column
  Turned,        ///< column * 32 + row
  PairedRows,    ///< (row / 2 * 32 + column) * 2 + row % 2
  PairedColumns, ///< (column / 2 * 32 + row) * 2 + column % 2
};

/// Rows and columns of a block, and its elements.
inline constexpr int64_t kBlockSide = 32;
inline constexpr int64_t kBlockElements = kBlockSide * kBlockSide;

/// Writes the 1024 elements of `result` from a block whose rows lie `leading`
/// elements apart. The CPU has AVX-512 (`hostHasAVX512`).
void packBlock(BlockOrder order, const uint16_t *source, int64_t leading,
               uint16_t *result);

/// Magnitudes of bf16 numbers that may be first parts: those of an f32 number's
/// three parts are no subnormal ones, which AMX takes for zero, and products of
/// two are finite.
inline constexpr float kLeastSplit = 0x1p-102f, kGreatestSplit = 0x1p62f;

/// Writes a block in f32 as `parts` blocks of bf16, 2 or 3, one after another:
/// each element of the first is the nearest bf16 number, each of the next is
/// what is missing, and so on. Of three the sum is the element; numbers below
/// 2^-134 count as zero. Gives false where a first part is neither zero nor
/// within the magnitudes above; `result` then means nothing.
bool splitBlock(BlockOrder order, const float *source, int64_t leading,
                int64_t parts, uint16_t *result);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_BLOCKS_H
