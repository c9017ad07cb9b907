// Plans sums per column inside kernels that work row by row.
//
// The backward pass of a layer norm computes the gradient of the input row by
// row. The gradients of scale, shift and an earlier bias are sums over rows of
// values that the row kernel has at hand. On a CPU, a slice of the kernel adds
// them up while it goes through its rows, in scratch memory that stays in
// cache. For 8 x 128 rows of 768 elements and a sum over each 128 rows (another
// kernel adds up the 8 results):
//
// ```
//   for each of 8 slices
//     totals[768] = 0
//     for each band of 8 rows
//       sums[768] = 0
//       for each row of the band
//         mean = sum of the row / 768                           (8 x 128 x 1)
//         for each vector of columns
//           y = x - mean; store it                              (8 x 128 x 768)
//           sums += y
//       totals += sums
//     store totals                                              (8 x 1 x 768)
// ```
//
// A separate kernel for wide rows (ColumnBands.h) adds in the same order. Both
// give the same bits, on any number of threads.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_COLUMNSUMS_H
#define MPC_COMPILER_KERNELS_COLUMNSUMS_H

#include "compiler/Kernels/KernelSpace.h"

namespace mpc {

/// Finds the column reductions in a kernel that also reduces rows. All column
/// reductions of such a kernel have the same ReductionSpace. Empty for any
/// other kernel.
llvm::SmallVector<mlir::Operation *> findColumnSums(mlir::Block &body);

/// True if a slice of a row kernel has room in half of a first-level cache for
/// `sums` sums of each of `columns` columns.
bool fitColumnSums(int64_t columns, int64_t sums);

/// Bytes of scratch memory for `sums` sums of each of `columns` columns.
int64_t getColumnSumBytes(int64_t columns, int64_t sums);

/// True if `sums`, all reductions of a column kernel, may move into a row
/// kernel. The column kernel must run in bands over a single axis, and `sums`
/// must leave enough slices: a slice owns all rows that are added to the same
/// results.
bool canAddBesideRows(llvm::ArrayRef<ReductionOpInterface> sums);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_COLUMNSUMS_H
