// The NVVM ops that kernels use, each as a function. The dialect's header takes
// longer to compile than all others together, so one source includes it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_NVVMOPS_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_NVVMOPS_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mpc::codegen {

/// Threads that execute in step, and exchange words by shuffles.
inline constexpr int64_t kWarpSize = 32;

/// Makes the NVVM dialect known to contexts of `registry`.
void registerNVVMDialect(mlir::DialectRegistry &registry);

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

/// The number of this thread in its block (i32), which is known to be below
/// `threads` where that is given.
mlir::Value createThreadId(mlir::ImplicitLocOpBuilder &b,
                           std::optional<int64_t> threads = std::nullopt);

/// The number of this block in its grid (i32).
mlir::Value createBlockId(mlir::ImplicitLocOpBuilder &b);

/// Waits for all threads of the block, and for what they wrote.
void emitBarrier(mlir::ImplicitLocOpBuilder &b);

/// Waits for all threads of the warp, and for what they wrote.
void emitWarpBarrier(mlir::ImplicitLocOpBuilder &b);

/// The 32-bit `word` of the lane whose number differs in the bits of
/// `distance`. `members` (i32) has the bits of the lanes that take part.
mlir::Value shuffleWord(mlir::ImplicitLocOpBuilder &b, mlir::Value members,
                        mlir::Value word, int64_t distance);

/// A word (i32) whose bit i is `condition` (i1) of the warp's lane i; all lanes
/// take part.
mlir::Value collectLanes(mlir::ImplicitLocOpBuilder &b, mlir::Value condition);

/// How many bits of a word are set.
mlir::Value countBits(mlir::ImplicitLocOpBuilder &b, mlir::Value word);

//===----------------------------------------------------------------------===//
// Asynchronous copies from global to shared memory (cp.async)
//===----------------------------------------------------------------------===//

/// Copies `bytes` bytes (4, 8 or 16). With `size` (i32), only the first `size`
/// of them are read, and zeros are written for the others.
void emitCopyAsync(mlir::ImplicitLocOpBuilder &b, mlir::Value to,
                   mlir::Value from, int64_t bytes, mlir::Value size);

/// Ends a group of copies, which may be empty.
void commitCopies(mlir::ImplicitLocOpBuilder &b);

/// Waits until at most the newest `pending` groups are under way.
void awaitCopies(mlir::ImplicitLocOpBuilder &b, int64_t pending);

//===----------------------------------------------------------------------===//
// Matrices of 16-bit floats
//===----------------------------------------------------------------------===//

/// Four 8 x 8 matrices from shared memory, matrix i's rows at the `pointer`s of
/// lanes 8i to 8i + 7: a register (i32) of each. With `transposed`, what lies
/// in memory as a row is a column.
llvm::SmallVector<mlir::Value> loadMatrices(mlir::ImplicitLocOpBuilder &b,
                                            mlir::Value pointer,
                                            bool transposed);

/// sums += lhs * rhs of one mma.sync m16n8k16: four f32 `sums`, four registers
/// of `lhs` and two of `rhs` as `loadMatrices` yields them, of `element`s (f16
/// or bf16).
void multiplyFragments(mlir::ImplicitLocOpBuilder &b, mlir::Type element,
                       mlir::ValueRange lhs, mlir::ValueRange rhs,
                       llvm::MutableArrayRef<mlir::Value> sums);

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Says that the host launches `function`, and of how many threads its blocks
/// are: that bounds the registers each may have. ptxas would bound them
/// further, to fit more blocks on a multiprocessor, even where it has to spill
/// then; told that one block is enough, it does not.
void markKernel(mlir::Operation *function, int64_t threads);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_NVVMOPS_H
