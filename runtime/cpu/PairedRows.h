// bf16 matrices in the order in which the bf16 instructions of x86
// (`vdpbf16ps`, `tdpbf16ps`) read the right operand of a product: "VNNI".
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_PAIREDROWS_H
#define MPC_RUNTIME_CPU_PAIREDROWS_H

#include <cstdint>

namespace mpc::runtime {

/// A packed matrix of `rows` x `columns`, in blocks of 32 rows and `width`
/// columns. A block is 16 pairs of rows, one after another; of a pair, the two
/// elements of a column lie side by side. Blocks of the same columns follow
/// each other. Rows and columns that the last blocks have more are zeros.
/// `width` is a multiple of 16; with 64 it is what oneDNN calls BA16a64b2a.
struct PairedLayout {
  static constexpr int64_t kBlockRows = 32;

  int64_t rows = 0, columns = 0, width = 0;

  int64_t rowBlocks() const { return (rows + kBlockRows - 1) / kBlockRows; }
  int64_t columnBlocks() const { return (columns + width - 1) / width; }
  int64_t blockElements() const { return kBlockRows * width; }
};

/// A matrix as it is stored: in rows, or in columns, `leading` elements apart.
struct StoredMatrix {
  const uint16_t *data = nullptr;
  int64_t leading = 0;
  bool inColumns = false;

  const uint16_t *at(int64_t row, int64_t column) const {
    return inColumns ? data + column * leading + row
                     : data + row * leading + column;
  }
};

/// Writes the blocks of rows [`firstBlock`, `lastBlock`) of `result`, which
/// lies as `layout` says, from `source`, which has its rows and columns.
void pairRows(const StoredMatrix &source, const PairedLayout &layout,
              int64_t firstBlock, int64_t lastBlock, uint16_t *result);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_PAIREDROWS_H
