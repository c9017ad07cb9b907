// Operands are packed by everybody who reads them. Memory is what takes time
// here: packed once for all, operands would be written to it and read again.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/amx/AMXOperands.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

namespace mpc::runtime {

bool canMultiplyByAMX(const MatMulStep &step, const MatMulOperands &operands,
                      const OneDNNConfig &config) {
  constexpr int64_t kFewest = kPanelWidth / 2;
  const DType type = operands.a.type;
  return (config.hasAMX || config.emulatesAMX) && type == operands.b.type &&
         (type == DType::BF16 || type == DType::F16 || type == DType::F32) &&
         step.m >= kFewest && step.n >= kFewest && step.k >= kFewest;
}

/// Whether a left operand in bf16, of whole panels and steps, is read where it
/// is. Not where the same elements of all rows lie in one or two sets of the
/// first cache, which repeat every 4 KiB: rows of 3072 or 8192 elements would
/// push each other out, and the right operand with them.
static bool isReadInPlace(const PanelSource &source, int64_t rows,
                          int64_t depth) {
  constexpr int64_t kHalfOfSets = 2048 / sizeof(uint16_t);
  return source.type == DType::BF16 && !source.inColumns &&
         rows % kPanelWidth == 0 && depth % kPanelWidth == 0 &&
         source.leading % kPanelWidth == 0 && source.leading % kHalfOfSets != 0;
}

/// A chunk of the left operand: where it is, or in panels. `leavesOut` becomes
/// true where a step was left out.
static LeftOperand packLeft(const PanelSource &source, int64_t rows,
                            int64_t depth, const Panels &panels,
                            bool &leavesOut) {
  constexpr int64_t kRowBytes = kPanelWidth * sizeof(uint16_t);
  if (isReadInPlace(source, rows, depth)) {
    const int64_t leading = source.leading * int64_t(sizeof(uint16_t));
    return {source.data, leading, 0, kRowBytes, kPanelWidth * leading};
  }
  leavesOut |= packLeftPanels(source, rows, depth, panels);
  const int64_t stepBytes = panels.parts * kPartBytes;
  return {panels.data, kRowBytes, kPartBytes, stepBytes,
          panelsOf(depth) * stepBytes};
}

/// A source from element (`rows`, `columns`) on.
static PanelSource advance(const PanelSource &source, int64_t rows,
                           int64_t columns) {
  PanelSource result = source;
  result.data = source.at(rows, columns);
  return result;
}

void multiplyByChunks(const OperandSources &sources, int64_t depth,
                      const ChunkScratch &scratch, std::byte *memory,
                      bool isPortable, const ProductSums &sums) {
  auto *multiply = isPortable ? multiplyPanelsPortably : multiplyPanels;
  for (int64_t k = 0; k < depth; k += scratch.chunkDepth()) {
    // Both operands in panels, and their product.
    const int64_t deep = std::min(scratch.chunkDepth(), depth - k);
    const PanelSource left = advance(sources.left, 0, k);
    const PanelSource right = advance(sources.right, k, 0);
    const Panels leftPanels = scratch.left(memory, sums.rows, deep);
    const Panels rightPanels = scratch.right(memory, sums.columns, deep);
    bool leavesOut = packRightPanels(right, deep, sums.columns, rightPanels);
    const LeftOperand packed =
        packLeft(left, sums.rows, deep, leftPanels, leavesOut);
    multiply(packed, rightPanels, panelsOf(deep), sums, k == 0);
    // What neither had.
    if (leavesOut)
      multiplyLeftOut(left, right, leftPanels.isLeftOut, rightPanels.isLeftOut,
                      deep, sums);
  }
}

} // namespace mpc::runtime
