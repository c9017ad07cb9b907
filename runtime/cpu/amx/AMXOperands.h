// Shared by the matrix products with AMX: the condition for AMX, the addresses
// of operands, and a product by one worker in chunks of the depth.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_AMX_AMXOPERANDS_H
#define MPC_RUNTIME_CPU_AMX_AMXOPERANDS_H

#include "runtime/cpu/amx/AMXPanels.h"
#include "runtime/cpu/onednn/MatrixOperands.h"

namespace mpc::runtime {

struct OneDNNConfig;

/// True if AMX multiplies the operands' type, both operands have one type, and
/// every side of the product is at least half a panel.
bool canMultiplyByAMX(const MatMulStep &step, const MatMulOperands &operands,
                      const OneDNNConfig &config);

inline MatMulOperand leftMatrix(const MatMulStep &step, Operand a) {
  return MatMulOperand(a, step, step.offsetA, step.transA ? step.k : step.m,
                       step.transA ? step.m : step.k, step.lda, step.strideA,
                       step.outer.a, step.transA);
}

inline MatMulOperand rightMatrix(const MatMulStep &step, Operand b) {
  return MatMulOperand(b, step, step.offsetB, step.transB ? step.n : step.k,
                       step.transB ? step.k : step.n, step.ldb, step.strideB,
                       step.outer.b, step.transB);
}

/// Returns matrix `index` of an operand's batch, from element (row, column) on.
inline PanelSource sourceAt(const MatMulOperand &operand, int64_t index,
                            int64_t row, int64_t column) {
  return {operand.source.type, operand.at(index, row, column, nullptr),
          operand.ld, operand.transposed};
}

/// Divides a worker's memory between one chunk of the left operand and one
/// chunk of the right: at most `rows` rows and `columns` columns. A chunk takes
/// as many steps of the depth as fit the L1 cache.
class ChunkScratch {
public:
  ChunkScratch() = default;
  ChunkScratch(int64_t rows, int64_t columns, int64_t depth, int64_t terms)
      : terms(terms), steps(std::min(panelsOf(depth), chunkStepsOf(terms))),
        rightOffset(
            alignScratch(size_t(Panels::bytes(panelsOf(rows), steps, terms)))),
        size(rightOffset +
             size_t(Panels::bytes(panelsOf(columns), steps, terms))) {}

  size_t bytes() const { return size; }
  /// Elements of the depth that are multiplied at once.
  int64_t chunkDepth() const { return steps * kPanelWidth; }
  Panels left(std::byte *memory, int64_t rows, int64_t depth) const {
    return Panels::at(memory, panelsOf(rows), panelsOf(depth), terms);
  }
  Panels right(std::byte *memory, int64_t columns, int64_t depth) const {
    return Panels::at(memory + rightOffset, panelsOf(columns), panelsOf(depth),
                      terms);
  }

private:
  int64_t terms = 1, steps = 0;
  size_t rightOffset = 0, size = 0;
};

/// The two operands of a product, from the first element along the contraction
/// axis on.
struct OperandSources {
  PanelSource left, right;
};

/// Sets `sums` to the product of `sources` over `depth` elements. `scratch`
/// describes the memory at `memory`. With `isPortable` the product avoids AMX.
void multiplyByChunks(const OperandSources &sources, int64_t depth,
                      const ChunkScratch &scratch, std::byte *memory,
                      bool isPortable, const ProductSums &sums);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_AMX_AMXOPERANDS_H
