// Adds up the column sums of a row kernel on a CPU, in scratch memory
// (compiler/Kernels/ColumnSums.h).
//
// The rows are divided into parts, each with sums of its own. The sums of each
// band of 8 rows in a part start from the neutral element. Then they are added
// to totals, which are wider than the sums if the sums are f32.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNTOTALS_H
#define MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNTOTALS_H

#include "passes/Codegen/Kernels/FragmentEmitter.h"
#include "passes/Codegen/Kernels/Reduction/Accumulators.h"

namespace mpc::codegen {

/// The groups of axes of a kernel that reduces columns: `sizes` axes are
/// (outer, reduced, inner). If the reduction has parts, `split` divides the
/// reduced axis, and the number of the part is an outer axis.
struct ColumnGroups {
  llvm::SmallVector<int64_t> sizes;
  std::optional<SplitAxis> split;

  static ColumnGroups get(mlir::Operation *reduction);
};

class ColumnTotals {
public:
  /// `body` must have three groups of axes: outer axes, rows of a part, and
  /// columns.
  ColumnTotals(KernelContext &context, const KernelBody &body,
               FragmentEmitter &fragments);

  bool isEmpty() const { return body.getColumnSums().empty(); }

  /// The nodes whose values the column sums add up.
  llvm::ArrayRef<unsigned> getInputs() const { return inputs; }

  /// Calls `emitRow` for each of the rows [begin, end), which are whole parts,
  /// and stores the sums of each part.
  void emitParts(const Scope &outer, mlir::Value begin, mlir::Value end,
                 llvm::function_ref<void(Scope &row)> emitRow);

  /// Adds the row's elements at position `at` to the sums of their columns.
  /// `at` must hold the values of the nodes of getInputs.
  void accumulate(const Scope &at);

private:
  /// A buffer of sums or totals per column reduction.
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
