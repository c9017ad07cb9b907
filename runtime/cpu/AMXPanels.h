// bf16 operands of a matrix product in the order in which AMX's tiles of
// registers read them, and the product of such operands.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_AMXPANELS_H
#define MPC_RUNTIME_CPU_AMXPANELS_H

#include "runtime/cpu/PairedRows.h"

#include <cstddef>
#include <cstdint>

namespace mpc::runtime {

/// Rows of the left operand, or columns of the right one, that make a panel,
/// and elements of the depth that make a step. A step of a panel is 2 KiB, two
/// tiles of registers.
inline constexpr int64_t kPanelWidth = 32;
inline constexpr int64_t kPanelStepBytes = kPanelWidth * kPanelWidth * 2;
/// Steps of a panel that are multiplied at once: 16 KiB of L1.
inline constexpr int64_t kChunkSteps = 8;

/// How many panels or steps hold `extent` elements.
inline constexpr int64_t panelsOf(int64_t extent) {
  return (extent + kPanelWidth - 1) / kPanelWidth;
}

/// Writes a left operand of `rows` x `depth` elements as panels. The steps of a
/// panel, 32 rows of 32 elements each, follow each other, then comes the next
/// panel. What the last panel and the last step have more is zeros.
void packLeftPanels(const StoredMatrix &source, int64_t rows, int64_t depth,
                    std::byte *result);

/// Writes a right operand of `depth` x `columns` elements as panels, whose
/// steps are 16 pairs of rows of 32 columns each (PairedLayout).
void packRightPanels(const StoredMatrix &source, int64_t depth, int64_t columns,
                     std::byte *result);

/// Where a left operand lies: in panels, or as a matrix in rows whose sides are
/// whole panels and steps. All distances are in bytes.
struct LeftOperand {
  const std::byte *data;
  int64_t row;   ///< from a row to the next one of the same panel
  int64_t step;  ///< from a step to the next
  int64_t panel; ///< from a panel to the next
};

/// Rows x columns sums in f32, `leading` elements from row to row. There is
/// room for whole panels: `leading` is a multiple of 32, and so is the number
/// of rows behind `data`.
struct ProductSums {
  float *data;
  int64_t leading;
  int64_t rows, columns;
};

/// Adds the product of `left` and of the right operand's panels, over `steps`
/// steps of the depth, to `sums`; `isFirst`: there are none yet. By AMX, which
/// the CPU and the process must have (`requestAMXPermission`).
void multiplyPanels(const LeftOperand &left, const std::byte *right,
                    int64_t steps, const ProductSums &sums, bool isFirst);

/// The same by instructions that every CPU has, for tests.
void multiplyPanelsPortably(const LeftOperand &left, const std::byte *right,
                            int64_t steps, const ProductSums &sums,
                            bool isFirst);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_AMXPANELS_H
