// How the work of a kernel is divided, from its shapes alone.
//
// Planning writes extent and grain into a launch step, Codegen writes the loops
// of [begin, end): both ask here, so they agree. Nothing depends on the number
// of threads or of multiprocessors, so the same slice does the same work on any
// machine.
//
// Each kind has a file of compiler/Kernels/Heroes, where its partition is;
// Heroes/Partitions.h says how the threads of a GPU share a slice.
//
// A kernel is a `func.func private` with the attribute `mpc.kernel`, its kind:
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
// Arguments and then results are whole buffers, row-major and contiguous, in
// the tensor types given. A `pointwise` or `epilogue` result may be the very
// buffer of an argument of its type, that of a `contraction` on a CPU the
// buffer of one that it does not multiply; otherwise results overlap nothing.
// The result of a scatter with unique indices has the data's elements already.
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
  /// How many adjacent elements one index stands for. In a pointwise kernel
  /// every operand is, over them, either dense or one value.
  int64_t inner = 1;
  /// On a GPU: threads of a block, how many of them share a row, and elements
  /// of the vectors each loads and stores.
  int64_t threads = 1, lanes = 1, vector = 1;
  /// There too: bytes of dynamic shared memory of a block.
  int64_t shared = 0;
  /// On a CPU: bytes of memory that a slice needs beside its buffers.
  int64_t scratch = 0;
};

/// Columns that one slice owns at least: whole cache lines.
inline constexpr int64_t kColumnBlock = 64;

/// The length of equal parts of `extent`, as few as are at most `most` long, in
/// multiples of `unit`.
int64_t divideEvenly(int64_t extent, int64_t most, int64_t unit);

/// The partition of `kernel`, which is of any kind but epilogue, on a CPU.
KernelPartition getKernelPartition(mlir::func::FuncOp kernel);

/// The partition of `kernel` on `target`.
KernelPartition getKernelPartition(mlir::func::FuncOp kernel,
                                   const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_KERNELPARTITION_H
