// The column sums of a kernel over rows on a CPU: in scratch memory
// (compiler/Kernels/ColumnSums.h).
//
// Rows are added up in bands of 8, each afresh, and bands to totals, which are
// wider where the sums are f32.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNTOTALS_H
#define MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNTOTALS_H

#include "passes/Codegen/Kernels/FragmentEmitter.h"
#include "passes/Codegen/Kernels/Reduction/Accumulators.h"

namespace mpc::codegen {

/// What the groups of axes are of a kernel that reduces columns: (outer,
/// reduced, inner). The number of a part, where a reduction has parts, is an
/// outer axis.
struct ColumnGroups {
  llvm::SmallVector<int64_t> sizes;
  std::optional<SplitAxis> split;

  static ColumnGroups get(mlir::Operation *reduction);
};

class ColumnTotals {
public:
  /// `body` has groups (outer, rows of a part, columns).
  ColumnTotals(KernelContext &context, const KernelBody &body,
               FragmentEmitter &fragments);

  bool isEmpty() const { return body.getColumnSums().empty(); }

  /// Nodes of what is added up.
  llvm::ArrayRef<unsigned> getInputs() const { return inputs; }

  /// Runs `emitRow` for the rows [begin, end), whole parts, and stores the sums
  /// of each part.
  void emitParts(const Scope &outer, mlir::Value begin, mlir::Value end,
                 llvm::function_ref<void(Scope &row)> emitRow);

  /// Adds the row's elements at `at`, where inputs have been computed.
  void accumulate(const Scope &at);

private:
  /// The sums or totals at the columns of a chunk.
  using Buffers = llvm::SmallVector<mlir::Value>;

  void createBuffers();
  void forColumns(llvm::function_ref<void(Chunk chunk)> emit);
  AccumulatorChain createChain(int64_t width) const;
  Carried load(const Buffers &buffers, Chunk chunk);
  void store(const Buffers &buffers, Chunk chunk, mlir::ValueRange values);
  void emitBand(const Scope &part, mlir::Value first, mlir::Value end,
                llvm::function_ref<void(Scope &row)> emitRow);
  void finish(const Scope &part);

  KernelContext &context;
  const KernelBody &body;
  FragmentEmitter &fragments;
  mlir::ImplicitLocOpBuilder &b;
  llvm::SmallVector<unsigned> inputs;
  /// Elements of a row, and rows of a part.
  int64_t columns = 0, length = 0;
  Buffers sums, totals;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNTOTALS_H
