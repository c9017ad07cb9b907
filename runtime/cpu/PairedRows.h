// Packs bf16 matrices in the order in which the bf16 instructions of x86
// (`vdpbf16ps`, `tdpbf16ps`) read the right operand of a product, known as
// "VNNI".
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_PAIREDROWS_H
#define MPC_RUNTIME_CPU_PAIREDROWS_H

#include <cstdint>

namespace mpc::runtime {

/// The layout of a packed matrix of `rows` x `columns`. Blocks have 32 rows and
/// `width` columns. A block is 16 pairs of rows; the two elements of a column
/// are adjacent. Example: rows [a, b] and [c, d] are stored as [a, c, b, d].
/// Blocks of the same columns are consecutive. The last blocks are filled up
/// with zeros. `width` is a multiple of 16; for 64, oneDNN calls the layout
/// BA16a64b2a.
struct PairedLayout {
  static constexpr int64_t kBlockRows = 32;

  int64_t rows = 0, columns = 0, width = 0;

  int64_t rowBlocks() const { return (rows + kBlockRows - 1) / kBlockRows; }
  int64_t columnBlocks() const { return (columns + width - 1) / width; }
  int64_t blockElements() const { return kBlockRows * width; }
};

/// A stored matrix: row-major, or column-major with `inColumns`. `leading` is
/// the leading dimension in elements.
struct StoredMatrix {
  const uint16_t *data = nullptr;
  int64_t leading = 0;
  bool inColumns = false;

  const uint16_t *at(int64_t row, int64_t column) const {
    return inColumns ? data + column * leading + row
                     : data + row * leading + column;
  }
};

/// Packs the blocks of rows [`firstBlock`, `lastBlock`) of `source` into
/// `result`, which has `layout`.
void pairRows(const StoredMatrix &source, const PairedLayout &layout,
              int64_t firstBlock, int64_t lastBlock, uint16_t *result);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_PAIREDROWS_H
