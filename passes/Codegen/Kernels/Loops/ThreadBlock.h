// Emits code by which the threads of a GPU block exchange values and combine
// them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_THREADBLOCK_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_THREADBLOCK_H

#include "passes/Codegen/Kernels/Loops/KernelContext.h"
#include "passes/Codegen/Kernels/Loops/NVVMOps.h"
#include "passes/Codegen/Kernels/Reduction/Accumulators.h"

namespace mpc::codegen {

/// Return the number of this thread in its block of `threads`, and the number
/// of the block.
mlir::Value getThread(mlir::ImplicitLocOpBuilder &b, int64_t threads);
mlir::Value getBlock(mlir::ImplicitLocOpBuilder &b);

/// Returns the scalar `value` of another thread: the thread whose rank is this
/// thread's rank XOR `distance`. Threads exchange values within groups of
/// `lanes` threads, which must all take part.
mlir::Value shuffle(mlir::ImplicitLocOpBuilder &b, mlir::Value value,
                    int64_t distance, int64_t lanes);

/// Combines the accumulated values of all threads of a team
/// (`context.columns`), and returns the result in each thread. Values are
/// combined by a fixed tree within each warp, then over the warps of the block.
mlir::Value combineColumns(KernelContext &context, Accumulator &accumulator,
                           mlir::Value value);

/// Combines the accumulated values (scalar or vector) of threads with equal
/// rank in their teams, over all teams of `context.rows`. Returns the result in
/// each thread. All threads of the block must take part.
mlir::Value combineRows(KernelContext &context, Accumulator &accumulator,
                        mlir::Value value);

/// True in the first thread of the team; null if the team has one thread.
mlir::Value isFirst(mlir::ImplicitLocOpBuilder &b, const Team &team);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_THREADBLOCK_H
