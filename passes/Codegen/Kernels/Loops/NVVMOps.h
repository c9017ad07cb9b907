// The NVVM ops that kernels use, each as a function. The dialect's header takes
// longer to compile than all others together, so only one source includes it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_NVVMOPS_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_NVVMOPS_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mpc::codegen {

/// Threads of a warp: they execute in step, and exchange words by shuffles.
inline constexpr int64_t kWarpSize = 32;

/// Registers the NVVM dialect.
void registerNVVMDialect(mlir::DialectRegistry &registry);

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

/// Returns the number of this thread in its block (i32). The value is known to
/// be below `threads`, if given.
mlir::Value createThreadId(mlir::ImplicitLocOpBuilder &b,
                           std::optional<int64_t> threads = std::nullopt);

/// Returns the number of this block in its grid (i32).
mlir::Value createBlockId(mlir::ImplicitLocOpBuilder &b);

/// Waits for all threads of the block and their writes.
void emitBarrier(mlir::ImplicitLocOpBuilder &b);

/// Waits for all threads of the warp and their writes.
void emitWarpBarrier(mlir::ImplicitLocOpBuilder &b);

/// Returns the 32-bit `word` of another lane of the warp: the lane with this
/// lane's number XOR `distance`. `members` (i32) has a bit for each
/// participating lane.
mlir::Value shuffleWord(mlir::ImplicitLocOpBuilder &b, mlir::Value members,
                        mlir::Value word, int64_t distance);

/// Returns a word (i32) whose bit i is the `condition` (i1) of lane i of the
/// warp. All lanes participate.
mlir::Value collectLanes(mlir::ImplicitLocOpBuilder &b, mlir::Value condition);

/// Counts the set bits of a word.
mlir::Value countBits(mlir::ImplicitLocOpBuilder &b, mlir::Value word);

//===----------------------------------------------------------------------===//
// Asynchronous copies from global to shared memory (cp.async)
//===----------------------------------------------------------------------===//

/// Starts an asynchronous copy of `bytes` bytes (4, 8 or 16) from global to
/// shared memory. With `size` (i32), only the first `size` bytes are read, and
/// zeros replace the others.
void emitCopyAsync(mlir::ImplicitLocOpBuilder &b, mlir::Value to,
                   mlir::Value from, int64_t bytes, mlir::Value size);

/// Makes a group of all copies that this thread has started since its last
/// group. A group may be empty.
void commitCopies(mlir::ImplicitLocOpBuilder &b);

/// Waits until at most the newest `pending` groups of this thread's copies are
/// unfinished.
void awaitCopies(mlir::ImplicitLocOpBuilder &b, int64_t pending);

//===----------------------------------------------------------------------===//
// Matrices of 16-bit floats
//===----------------------------------------------------------------------===//

/// Loads four 8 x 8 matrices from shared memory, one register (i32) each. The
/// `pointer`s of lanes 8i to 8i + 7 are the rows of matrix i. With
/// `transposed`, rows in memory become columns.
llvm::SmallVector<mlir::Value> loadMatrices(mlir::ImplicitLocOpBuilder &b,
                                            mlir::Value pointer,
                                            bool transposed);

/// Emits sums += lhs * rhs as one mma.sync m16n8k16: four f32 `sums`, four
/// registers of `lhs` and two of `rhs`, as `loadMatrices` yields them.
/// `element` is f16 or bf16.
void multiplyFragments(mlir::ImplicitLocOpBuilder &b, mlir::Type element,
                       mlir::ValueRange lhs, mlir::ValueRange rhs,
                       llvm::MutableArrayRef<mlir::Value> sums);

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Marks `function` as a kernel that the host launches with `threads` threads
/// per block, which bounds the registers per thread. Also requests at least one
/// block per multiprocessor. Otherwise ptxas would bound the registers further
/// to fit more blocks, even at the cost of spilling.
void markKernel(mlir::Operation *function, int64_t threads);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_NVVMOPS_H
