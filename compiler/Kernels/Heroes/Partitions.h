// Sizes the slices of a CPU and the blocks of a GPU for all kernel kinds.
//
// On a GPU, a slice is a block of threads. A block consists of teams of `lanes`
// adjacent threads. A team processes one row at a time, and its threads share
// the columns. The indices of the parallel axis are the same as on a CPU
// (KernelPartition.h), with two exceptions:
// - Column reductions: an index is a block of columns, and the teams share the
//   reduced elements.
// - Transposes of wide matrices and products on Tensor Cores: an index is a
//   tile of the result.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_HEROES_PARTITIONS_H
#define MPC_COMPILER_KERNELS_HEROES_PARTITIONS_H

#include "compiler/Kernels/KernelPartition.h"

namespace mpc::heroes {

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

/// Elements of a slice, about: microseconds of work. Scheduling a slice then
/// costs little, and a few threads still share a mid-sized tensor.
inline constexpr int64_t kSliceElements = 16384;

/// Divides `extent` into slices of whole multiples of `unit` indices, each
/// about `work` elements. An index is `inner` elements.
KernelPartition slice(int64_t extent, int64_t inner, int64_t unit = 1,
                      int64_t work = kSliceElements);

/// Slices the rows of the kernel's first result; a row is the last axis.
KernelPartition sliceRows(mlir::func::FuncOp kernel);

//===----------------------------------------------------------------------===//
// GPU
//===----------------------------------------------------------------------===//

/// Threads of a block by default: eight warps. Several such blocks fit a
/// multiprocessor.
inline constexpr int64_t kBlockThreads = 256;
inline constexpr int64_t kWarp = 32;
/// More blocks than this do not balance the load better; a block processes more
/// indices instead.
inline constexpr int64_t kEnoughBlocks = 4096;
/// This many blocks fill every multiprocessor a few times.
inline constexpr int64_t kFewBlocks = 1024;

/// A block that processes `work` indices at once repeats for further indices.
/// Returns the number of repetitions with which at most `enoughBlocks` blocks
/// cover `extent` indices.
int64_t countRounds(int64_t extent, int64_t work,
                    int64_t enoughBlocks = kEnoughBlocks);

/// Returns the number of elements per vector: the largest power of two that
/// divides `run`, with at most 16 bytes for the kernel's narrowest floats.
int64_t vectorOf(mlir::func::FuncOp kernel, int64_t run,
                 const TargetInfo &target);

/// Like vectorOf, for loops that process the last elements of a row singly.
/// `run` need not be a multiple of the vector, but every row must start at a
/// multiple of the vector in memory. Rows of 257 elements qualify if they lie
/// 264 elements apart.
int64_t vectorOfRows(mlir::func::FuncOp kernel, int64_t run,
                     const TargetInfo &target);

/// Shares `rows` rows of `columns` elements. Each row gets as many threads as
/// it has vectors, up to the whole block.
KernelPartition shareRows(int64_t rows, int64_t columns, int64_t vector);

/// Shares the rows of the kernel's first result.
KernelPartition shareRows(mlir::func::FuncOp kernel, const TargetInfo &target);

} // namespace mpc::heroes

#endif // MPC_COMPILER_KERNELS_HEROES_PARTITIONS_H
