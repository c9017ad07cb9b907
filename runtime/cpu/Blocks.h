// Blocks of 32 x 32 elements of 16 bits, turned and paired, by AVX-512.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_BLOCKS_H
#define MPC_RUNTIME_CPU_BLOCKS_H

#include <cstdint>

namespace mpc::runtime {

/// Where element (row, column) of a block goes in the packed one.
enum class BlockOrder {
  Turned,        ///< column * 32 + row
  PairedRows,    ///< (row / 2 * 32 + column) * 2 + row % 2
  PairedColumns, ///< (column / 2 * 32 + row) * 2 + column % 2
};

/// Writes the 1024 elements of `result` from a block whose rows lie `leading`
/// elements apart. The CPU has AVX-512 (`hostHasAVX512`).
void packBlock(BlockOrder order, const uint16_t *source, int64_t leading,
               uint16_t *result);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_BLOCKS_H
