// How slices of a CPU and blocks of a GPU are sized, for every kind of kernel.
//
// On a GPU a slice is a block of threads. They divide in teams of `lanes`
// adjacent ones: a team takes a row, its threads share the columns. The
// parallel axis is that of a CPU except in column reductions, where an index is
// a block of columns and the teams share what is reduced, and in transposes of
// wide matrices and products on Tensor Cores, where it is a tile of the result.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_HEROES_PARTITIONS_H
#define MPC_COMPILER_KERNELS_HEROES_PARTITIONS_H

#include "compiler/Kernels/KernelPartition.h"

namespace mpc::heroes {

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

/// A slice has about this many elements: microseconds of work, so that handing
/// it out costs little and a few threads still share a mid-sized tensor.
inline constexpr int64_t kSliceElements = 16384;

/// Slices of whole multiples of `unit` indices, each about `work` elements
/// where one index is `inner` elements.
KernelPartition slice(int64_t extent, int64_t inner, int64_t unit = 1,
                      int64_t work = kSliceElements);

/// Slices of rows of the kernel's first result, whose last axis is a row.
KernelPartition sliceRows(mlir::func::FuncOp kernel);

//===----------------------------------------------------------------------===//
// GPU
//===----------------------------------------------------------------------===//

/// Threads of a block unless there is a reason for another number: eight warps,
/// of which several blocks fit a multiprocessor.
inline constexpr int64_t kBlockThreads = 256;
inline constexpr int64_t kWarp = 32;
/// More blocks than this are no better balanced; each does more instead.
inline constexpr int64_t kEnoughBlocks = 4096;
/// As many as fill every multiprocessor a few times.
inline constexpr int64_t kFewBlocks = 1024;

/// How often a block does `work` indices, so that there are not too many.
int64_t countRounds(int64_t extent, int64_t work,
                    int64_t enoughBlocks = kEnoughBlocks);

/// Elements of a vector such that the narrowest floats fill 16 bytes and runs
/// of `run` elements divide in whole vectors.
int64_t vectorOf(mlir::func::FuncOp kernel, int64_t run,
                 const TargetInfo &target);

/// The same where loops go along rows of `run` elements and may end one with
/// single elements: what counts is that rows begin at whole vectors, as those
/// of 257 elements do which lie 264 apart.
int64_t vectorOfRows(mlir::func::FuncOp kernel, int64_t run,
                     const TargetInfo &target);

/// `rows` rows of `columns` elements, each for as many threads as it has
/// vectors, up to the whole block.
KernelPartition shareRows(int64_t rows, int64_t columns, int64_t vector);

/// The same for rows of the kernel's first result.
KernelPartition shareRows(mlir::func::FuncOp kernel, const TargetInfo &target);

} // namespace mpc::heroes

#endif // MPC_COMPILER_KERNELS_HEROES_PARTITIONS_H
