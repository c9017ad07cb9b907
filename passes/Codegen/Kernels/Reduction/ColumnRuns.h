// How a slice of a column reduction on a CPU goes along its columns.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNRUNS_H
#define MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNRUNS_H

#include "passes/Codegen/Kernels/FragmentEmitter.h"

namespace mpc::codegen {

/// `vectors` vectors of columns that a slice takes at once, at most a block of
/// columns; the rest in fewer and narrower ones.
llvm::SmallVector<ChunkShape> getColumnShapes(KernelContext &context,
                                              const KernelBody &body,
                                              int64_t vectors);

/// What a slice does of one run: columns [lower, upper) of the scope's outer
/// index.
using RunBody = llvm::function_ref<void(const Scope &outer, mlir::Value lower,
                                        mlir::Value upper)>;

/// Results [begin, end) as runs: result e is element e % run of run e / run,
/// where a run is the last dimension. The first and the last run of a slice may
/// be cut.
void emitRuns(KernelContext &context, const KernelBody &body,
              FragmentEmitter &fragments, mlir::Value begin, mlir::Value end,
              RunBody emit);

/// The loops of a kernel whose partition has bands (ColumnBands.h).
mlir::LogicalResult emitColumnBands(KernelContext &context,
                                    const KernelBody &body);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNRUNS_H
