// Emits the loops along the columns in a slice of a column reduction on a CPU.
// A run is all columns at one index of the outer axes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNRUNS_H
#define MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNRUNS_H

#include "passes/Codegen/Kernels/FragmentEmitter.h"

namespace mpc::codegen {

/// Returns the shapes of the chunks that cover a run: first `vectors` vectors
/// side by side, at most kColumnBlock columns, then fewer and narrower vectors
/// for the rest.
llvm::SmallVector<ChunkShape> getColumnShapes(KernelContext &context,
                                              const KernelBody &body,
                                              int64_t vectors);

/// Emits columns [lower, upper) of one run. `outer` has the indices along the
/// outer axes.
using RunBody = llvm::function_ref<void(const Scope &outer, mlir::Value lower,
                                        mlir::Value upper)>;

/// Emits the results [begin, end) of a slice, run by run. If runs have n
/// columns, result e is column e % n of run e / n. The first and last run of a
/// slice may be cut.
void emitRuns(KernelContext &context, const KernelBody &body,
              FragmentEmitter &fragments, mlir::Value begin, mlir::Value end,
              RunBody emit);

/// Emits a column reduction in bands of rows, with totals in scratch memory
/// (ColumnBands.h).
mlir::LogicalResult emitColumnBands(KernelContext &context,
                                    const KernelBody &body);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNRUNS_H
