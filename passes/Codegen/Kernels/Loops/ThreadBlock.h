// What the threads of a block on a GPU do together.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_THREADBLOCK_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_THREADBLOCK_H

#include "passes/Codegen/Kernels/Loops/KernelContext.h"
#include "passes/Codegen/Kernels/Loops/NVVMOps.h"
#include "passes/Codegen/Kernels/Reduction/Accumulators.h"

namespace mpc::codegen {

/// The number of this thread in its block of `threads`, and of the block.
mlir::Value getThread(mlir::ImplicitLocOpBuilder &b, int64_t threads);
mlir::Value getBlock(mlir::ImplicitLocOpBuilder &b);

/// The scalar `value` of the thread whose rank differs in the bits of
/// `distance`; exchanged within groups of `lanes` threads, which are all here.
mlir::Value shuffle(mlir::ImplicitLocOpBuilder &b, mlir::Value value,
                    int64_t distance, int64_t lanes);

/// What all threads of `context.columns` accumulated, on each of them: a fixed
/// tree within the warp, then over the warps of the block.
mlir::Value combineColumns(KernelContext &context, Accumulator &accumulator,
                           mlir::Value value);

/// What the threads of equal rank in `context.columns` accumulated in all teams
/// of `context.rows`, a scalar or a vector, on each of them. All threads of the
/// block are here.
mlir::Value combineRows(KernelContext &context, Accumulator &accumulator,
                        mlir::Value value);

/// True in the first thread of the team; null if the team has one thread.
mlir::Value isFirst(mlir::ImplicitLocOpBuilder &b, const Team &team);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_THREADBLOCK_H
