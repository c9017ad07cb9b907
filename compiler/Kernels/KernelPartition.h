// Divides the work of a kernel by its shapes alone.
//
// Planning writes extent and grain into a launch step, and Codegen writes the
// loops over [begin, end). Both call the functions of this header, and so
// agree. Nothing depends on the number of threads or multiprocessors: a slice
// does the same work on any machine.
//
// The partition of each kind is in a file of compiler/Kernels/Heroes.
// Heroes/Partitions.h explains how the threads of a GPU share a slice.
//
// A kernel is a `func.func private` with the attribute `mpc.kernel`, its kind.
// In the table, `inner` is KernelPartition::inner:
//
// clang-format off
//
// | kind            | body                                        | extent: one index is                      |
// |-----------------|---------------------------------------------|-------------------------------------------|
// | `pointwise`     | elementwise ops                             | `inner` elements of the results' shape    |
// | `row_reduce`    | reductions over the trailing axes of one    | a row: `inner` elements, all reduced      |
// |                 | shape (keepdims), elementwise ops before    |                                           |
// |                 | and after; on a CPU also reductions over    |                                           |
// |                 | axes in front of them (ColumnSums.h)        |                                           |
// | `column_reduce` | reductions over a group of adjacent axes    | a result element                          |
// |                 | (keepdims), elementwise ops before          |                                           |
// | `contraction`   | a matmul or convolution, then elementwise   | a row of `inner` elements of its result   |
// |                 | ops                                         | as a matrix; of a large product a tile    |
// |                 |                                             | (ProductBlocks.h)                         |
// | `window`        | a pooling op                                | `inner` elements of the first result, its |
// |                 |                                             | last axis                                 |
// | `movement`      | a transpose, concat, slice or pad           | `inner` elements of the result, its last  |
// |                 |                                             | axis                                      |
// | `scatter`       | elementwise ops of the updates' shape, then | `inner` elements of the result: a part    |
// |                 | a scatter                                   | along the scattered axis; where indices   |
// |                 |                                             | are unique, those of an update            |
// | `cumulative`    | a cumulative sum                            | a line along the axis                     |
// | `epilogue`      | elementwise ops on argument 0, an fp32 tile | (called per tile, no extent)              |
//
// clang-format on
//
// A kernel takes its arguments, then its results, as whole buffers, row-major
// and contiguous, in the given tensor types. A result of a `pointwise` or
// `epilogue` kernel may use the buffer of an argument of its type. A result of
// a `contraction` on a CPU may use the buffer of an argument that is not
// multiplied. Otherwise results overlap nothing. The result of a scatter with
// unique indices already holds the elements of the data.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_KERNELPARTITION_H
#define MPC_COMPILER_KERNELS_KERNELPARTITION_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace mpc {

/// The indices [0, extent) of a kernel's parallel axis, in slices of `grain`.
struct KernelPartition {
  int64_t extent = 0;
  int64_t grain = 1;
  /// The adjacent elements that an index stands for. Over these elements,
  /// every operand of a pointwise kernel is either dense or one value.
  int64_t inner = 1;
  /// On a GPU: threads of a block, threads that share a row, and elements of
  /// the vectors that a thread loads and stores.
  int64_t threads = 1, lanes = 1, vector = 1;
  /// On a GPU: bytes of dynamic shared memory of a block.
  int64_t shared = 0;
  /// On a CPU: bytes of scratch memory of a slice, besides its buffers.
  int64_t scratch = 0;
};

/// The smallest number of columns that a slice owns: whole cache lines.
inline constexpr int64_t kColumnBlock = 64;

/// Divides `extent` into the fewest equal parts of at most `most`, and returns
/// their length rounded up to a multiple of `unit`.
int64_t divideEvenly(int64_t extent, int64_t most, int64_t unit);

/// Returns the CPU partition of `kernel`, of any kind except epilogue.
KernelPartition getKernelPartition(mlir::func::FuncOp kernel);

/// Returns the partition of `kernel` on `target`.
KernelPartition getKernelPartition(mlir::func::FuncOp kernel,
                                   const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_KERNELPARTITION_H
