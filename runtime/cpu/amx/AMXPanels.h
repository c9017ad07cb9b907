// Packs operands of a matrix product in the order in which AMX tile registers
// read them, and multiplies such operands.
//
// AMX multiplies bf16 numbers and accumulates in f32. Operands of higher
// precision are sums of bf16 numbers, called terms: two for f16, three for f32.
// A product of two f32 numbers takes six products of terms; the other three are
// less than half a unit of the last place. If no terms represent an element,
// for example an infinity, the AMX product leaves out the element's block of 32
// x 32, and the block is multiplied in f32.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_AMX_AMXPANELS_H
#define MPC_RUNTIME_CPU_AMX_AMXPANELS_H

#include "runtime/Tensor.h"
#include "runtime/cpu/Blocks.h"

#include <cstddef>
#include <cstdint>

namespace mpc::runtime {

/// The width of a panel, in rows of the left operand or columns of the right
/// operand, and of a step, in elements of the depth. One term of a panel step
/// is 2 KiB, two tile registers.
inline constexpr int64_t kPanelWidth = kBlockSide;
inline constexpr int64_t kTermBytes = kBlockElements * sizeof(uint16_t);

/// Returns the number of panels or steps that hold `extent` elements.
inline constexpr int64_t panelsOf(int64_t extent) {
  return (extent + kPanelWidth - 1) / kPanelWidth;
}

/// Returns `extent` rounded up to whole panels.
inline constexpr int64_t wholePanels(int64_t extent) {
  return panelsOf(extent) * kPanelWidth;
}

/// Returns the number of bf16 terms of `type`: bf16, f16 or f32.
inline constexpr int64_t termsOf(DType type) {
  return type == DType::BF16 ? 1 : type == DType::F16 ? 2 : 3;
}

/// Returns the number of steps of a panel that are multiplied at once. They
/// take 16 to 24 KiB of the L1 cache.
inline constexpr int64_t chunkStepsOf(int64_t terms) {
  return terms == 1 ? 8 : 4;
}

/// A stored matrix: row-major, or column-major with `inColumns`. `leading` is
/// the leading dimension in elements.
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

/// An operand packed in panels. The steps of a panel are consecutive; then
/// comes the next panel. A step is one block per term.
struct Panels {
  std::byte *data;
  int64_t terms;
  /// Per step of each panel: true if the step is stored as zeros, because no
  /// terms represent one of its elements. Null for one term.
  bool *isLeftOut;

  static int64_t bytes(int64_t panels, int64_t steps, int64_t terms) {
    return panels * steps * (terms * kTermBytes + int64_t(terms > 1));
  }
  /// Returns panels in memory of `bytes(panels, steps, terms)` bytes.
  static Panels at(std::byte *memory, int64_t panels, int64_t steps,
                   int64_t terms) {
    std::byte *marks = memory + panels * steps * terms * kTermBytes;
    return {memory, terms,
            terms > 1 ? reinterpret_cast<bool *>(marks) : nullptr};
  }
};

/// Packs a left operand of `rows` x `depth` elements. A block of a step has 32
/// rows of 32 elements of the depth. The last panel and step are filled up with
/// zeros. Returns true if a step was left out.
bool packLeftPanels(const PanelSource &source, int64_t rows, int64_t depth,
                    const Panels &result);

/// Packs a right operand of `depth` x `columns` elements. A block of a step has
/// 16 pairs of rows (BlockOrder::PairedRows). Returns true if a step was left
/// out.
bool packRightPanels(const PanelSource &source, int64_t depth, int64_t columns,
                     const Panels &result);

/// The location of a left operand: panels, or stored rows of whole panels and
/// steps. All distances are in bytes.
struct LeftOperand {
  const std::byte *data;
  int64_t row;   ///< between rows of a panel
  int64_t term;  ///< between terms of a step
  int64_t step;  ///< between steps
  int64_t panel; ///< between panels
};

/// f32 sums of rows x columns, with the leading dimension `leading` in
/// elements. There must be room for whole panels: `leading` covers them, and
/// the memory has a multiple of 32 rows.
struct ProductSums {
  float *data;
  int64_t leading;
  int64_t rows, columns;
};

/// Adds the product of `left` and `right`, which have equally many terms, to
/// `sums`. The depth is `steps` tiles of 32 bf16 elements. With `isFirst` the
/// sums start at zero. Requires AMX in the CPU and the permission to use it
/// (`requestAMXPermission`).
void multiplyPanels(const LeftOperand &left, const Panels &right, int64_t steps,
                    const ProductSums &sums, bool isFirst);

/// Computes the same product without AMX, for tests.
void multiplyPanelsPortably(const LeftOperand &left, const Panels &right,
                            int64_t steps, const ProductSums &sums,
                            bool isFirst);

/// Adds the f32 product of `rows` x 32 and 32 x 32 elements to `rows` x 32
/// sums. The left operand has rows of 32 contiguous elements. `rightLeading`
/// and `leading` are the leading dimensions of the right operand and of the
/// sums.
void addBlockProduct(const float *left, const float *right,
                     int64_t rightLeading, float *sums, int64_t leading,
                     int64_t rows);

/// Adds the products of steps that were left out of either operand. `left` and
/// `right` are the matrices of `depth` elements from which the panels were
/// packed.
void multiplyLeftOut(const PanelSource &left, const PanelSource &right,
                     const bool *leftOutOfLeft, const bool *leftOutOfRight,
                     int64_t depth, const ProductSums &sums);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_AMX_AMXPANELS_H
