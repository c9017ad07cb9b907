// Emits the loops along the columns in a slice of a column reduction on a CPU.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNRUNS_H
#define MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNRUNS_H

#include "passes/Codegen/Kernels/FragmentEmitter.h"

namespace mpc::codegen {

/// Returns the chunk shapes for columns: first `vectors` vectors at once, at
/// most a block of columns, then fewer and narrower vectors for the rest.
llvm::SmallVector<ChunkShape> getColumnShapes(KernelContext &context,
                                              const KernelBody &body,
                                              int64_t vectors);

/// Emits one run: columns [lower, upper) at the outer index of the scope.
using RunBody = llvm::function_ref<void(const Scope &outer, mlir::Value lower,
                                        mlir::Value upper)>;

/// Emits results [begin, end) as runs along the last dimension. Result e is
/// element e % run of run e / run. The first and last run of a slice may be
/// cut.
void emitRuns(KernelContext &context, const KernelBody &body,
              FragmentEmitter &fragments, mlir::Value begin, mlir::Value end,
              RunBody emit);

/// Emits the loops of a kernel whose partition has bands (ColumnBands.h).
mlir::LogicalResult emitColumnBands(KernelContext &context,
                                    const KernelBody &body);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_REDUCTION_COLUMNRUNS_H
