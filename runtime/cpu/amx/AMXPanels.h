// Operands of a matrix product in the order in which AMX's tiles of registers
// read them, and the product of such operands.
//
// Tiles multiply bf16 numbers and add the products in f32. Operands of more
// digits are sums of bf16 numbers: an f16 number of two, an f32 number of
// three, "parts". A product of two f32 numbers is six products of parts; the
// three others are less than half a unit of the last place. An element that is
// no such sum, infinite for example, has its block multiplied in f32.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_AMX_AMXPANELS_H
#define MPC_RUNTIME_CPU_AMX_AMXPANELS_H

#include "runtime/Tensor.h"
#include "runtime/cpu/Blocks.h"

#include <cstddef>
#include <cstdint>

namespace mpc::runtime {

/// Rows of the left operand, or columns of the right one, that make a panel,
/// and elements of the depth that make a step. A part of a step of a panel is 2
/// KiB, two tiles of registers.
inline constexpr int64_t kPanelWidth = kBlockSide;
inline constexpr int64_t kPartBytes = kBlockElements * sizeof(uint16_t);

/// How many panels or steps hold `extent` elements.
inline constexpr int64_t panelsOf(int64_t extent) {
  return (extent + kPanelWidth - 1) / kPanelWidth;
}

/// `extent` rounded up to whole panels.
inline constexpr int64_t wholePanels(int64_t extent) {
  return panelsOf(extent) * kPanelWidth;
}

/// How many bf16 numbers make one of `type`: bf16, f16 or f32.
inline constexpr int64_t partsOf(DType type) {
  return type == DType::BF16 ? 1 : type == DType::F16 ? 2 : 3;
}

/// Steps of a panel that are multiplied at once: 16 to 24 KiB of L1.
inline constexpr int64_t chunkStepsOf(int64_t parts) {
  return parts == 1 ? 8 : 4;
}

/// A matrix as it is stored: in rows, or in columns, `leading` elements apart.
struct PanelSource {
  DType type;
  const std::byte *data;
  int64_t leading;
  bool inColumns;

  const std::byte *at(int64_t row, int64_t column) const {
    const int64_t offset =
        inColumns ? column * leading + row : row * leading + column;
    return data + offset * int64_t(sizeOf(type));
  }
};

/// An operand in panels: the steps of a panel follow each other, then comes the
/// next panel. A step is a block for each part.
struct Panels {
  std::byte *data;
  int64_t parts;
  /// Of each step of each panel, whether it is zeros because an element is no
  /// sum of parts. Null for one part.
  bool *isLeftOut;

  static int64_t bytes(int64_t panels, int64_t steps, int64_t parts) {
    return panels * steps * (parts * kPartBytes + int64_t(parts > 1));
  }
  /// Panels in memory of `bytes(panels, steps, parts)`.
  static Panels at(std::byte *memory, int64_t panels, int64_t steps,
                   int64_t parts) {
    std::byte *marks = memory + panels * steps * parts * kPartBytes;
    return {memory, parts,
            parts > 1 ? reinterpret_cast<bool *>(marks) : nullptr};
  }
};

/// Writes a left operand of `rows` x `depth` elements: a block of a step has 32
/// rows of the depth's elements. What the last panel and the last step have
/// more is zeros. Gives whether a step was left out.
bool packLeftPanels(const PanelSource &source, int64_t rows, int64_t depth,
                    const Panels &result);

/// Writes a right operand of `depth` x `columns` elements: a block of a step is
/// 16 pairs of rows (BlockOrder::PairedRows).
bool packRightPanels(const PanelSource &source, int64_t depth, int64_t columns,
                     const Panels &result);

/// Where a left operand lies: in panels, or as rows of whole steps, as many as
/// panels have. All distances are in bytes.
struct LeftOperand {
  const std::byte *data;
  int64_t row;   ///< from a row to the next one of the same panel
  int64_t part;  ///< from a part of a step to the next
  int64_t step;  ///< from a step to the next
  int64_t panel; ///< from a panel to the next
};

/// Rows x columns sums in f32, `leading` elements from row to row. There is
/// room for whole panels: `leading` is no less than them, and rows behind
/// `data` are a multiple of 32.
struct ProductSums {
  float *data;
  int64_t leading;
  int64_t rows, columns;
};

/// Adds the product of `left` and of the right operand's panels, of as many
/// parts, over `steps` steps of the depth, to `sums`; `isFirst`: there are none
/// yet. By AMX, which the CPU and the process must have
/// (`requestAMXPermission`).
void multiplyPanels(const LeftOperand &left, const Panels &right, int64_t steps,
                    const ProductSums &sums, bool isFirst);

/// The same by instructions that every CPU has, for tests.
void multiplyPanelsPortably(const LeftOperand &left, const Panels &right,
                            int64_t steps, const ProductSums &sums,
                            bool isFirst);

/// Adds the product of `rows` x 32 and 32 x 32 elements to `rows` x 32 sums, in
/// f32. Rows of the left operand lie side by side, those of the right one and
/// of the sums `rightLeading` and `leading` elements apart.
void addBlockProduct(const float *left, const float *right,
                     int64_t rightLeading, float *sums, int64_t leading,
                     int64_t rows);

/// Adds the products of steps that either operand left out, from the matrices
/// of `depth` elements that the panels were made of.
void multiplyLeftOut(const PanelSource &left, const PanelSource &right,
                     const bool *leftOutOfLeft, const bool *leftOutOfRight,
                     int64_t depth, const ProductSums &sums);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_AMX_AMXPANELS_H
