// Multiplies two operands chunk by chunk along the depth. Each tile of the
// result packs the operands that it reads, although several tiles read the same
// operand. Memory bandwidth is the bottleneck, and a shared packed copy would
// be written to memory and read back.
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

/// True if AMX can read a left operand in place: bf16, with whole panels and
/// steps. False if equal columns of all rows map to one or two sets of the L1
/// cache, because the sets repeat every 4 KiB. Rows of 3072 or 8192 elements
/// would evict each other and the right operand.
static bool isReadInPlace(const PanelSource &source, int64_t rows,
                          int64_t depth) {
  constexpr int64_t kHalfOfSets = 2048 / sizeof(uint16_t);
  return source.type == DType::BF16 && !source.inColumns &&
         rows % kPanelWidth == 0 && depth % kPanelWidth == 0 &&
         source.leading % kPanelWidth == 0 && source.leading % kHalfOfSets != 0;
}

/// Returns a chunk of the left operand, in place or packed into panels. Sets
/// `leavesOut` if bf16 terms cannot represent some step, which the AMX product
/// then leaves out.
static LeftOperand packLeft(const PanelSource &source, int64_t rows,
                            int64_t depth, const Panels &panels,
                            bool &leavesOut) {
  constexpr int64_t kRowBytes = kPanelWidth * sizeof(uint16_t);
  if (isReadInPlace(source, rows, depth)) {
    const int64_t leading = source.leading * int64_t(sizeof(uint16_t));
    return {source.data, leading, 0, kRowBytes, kPanelWidth * leading};
  }
  leavesOut |= packLeftPanels(source, rows, depth, panels);
  const int64_t stepBytes = panels.terms * kTermBytes;
  return {panels.data, kRowBytes, kTermBytes, stepBytes,
          panelsOf(depth) * stepBytes};
}

/// Returns the source from element (`rows`, `columns`) on.
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
    const int64_t deep = std::min(scratch.chunkDepth(), depth - k);
    const PanelSource left = advance(sources.left, 0, k);
    const PanelSource right = advance(sources.right, k, 0);
    const Panels leftPanels = scratch.left(memory, sums.rows, deep);
    const Panels rightPanels = scratch.right(memory, sums.columns, deep);
    bool leavesOut = packRightPanels(right, deep, sums.columns, rightPanels);
    const LeftOperand packed =
        packLeft(left, sums.rows, deep, leftPanels, leavesOut);
    multiply(packed, rightPanels, panelsOf(deep), sums, k == 0);
    // Add the products of steps that were left out of either operand.
    if (leavesOut)
      multiplyLeftOut(left, right, leftPanels.isLeftOut, rightPanels.isLeftOut,
                      deep, sums);
  }
}

} // namespace mpc::runtime
