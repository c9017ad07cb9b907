// Sums for each column beside the rows of a kernel.
//
// The gradients of a layer norm's input are made row by row, those of its scale
// and shift are sums over rows of what the same kernel has at hand, and so is
// that of a bias that was added to the input. On a CPU a slice of the kernel
// goes through some rows and adds them up as it goes, in scratch memory that
// stays in its caches. For 8 x 128 rows of 768 elements and sums over each 128
// of them, which another kernel adds up:
//
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
//
// That is the order in which a kernel of its own adds up wide rows
// (ColumnBands.h): a sum has the same bits in either, on any number of threads.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_COLUMNSUMS_H
#define MPC_COMPILER_KERNELS_COLUMNSUMS_H

#include "compiler/Kernels/KernelSpace.h"

namespace mpc {

/// The reductions of columns in a kernel that reduces rows, all of one space;
/// none in any other kernel.
llvm::SmallVector<mlir::Operation *> findColumnSums(mlir::Block &body);

/// Whether slices of a kernel over rows have room for `sums` sums of each of
/// `columns` columns: in half of a first-level cache.
bool fitColumnSums(int64_t columns, int64_t sums);

/// Bytes of scratch memory that they take.
int64_t getColumnSumBytes(int64_t columns, int64_t sums);

/// Whether `sums`, reductions of columns that make up a kernel, can as well be
/// made beside rows: that kernel would go through bands of one axis, and there
/// are slices enough, of which each has one element of the result in every
/// column.
bool canAddBesideRows(llvm::ArrayRef<ReductionOpInterface> sums);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_COLUMNSUMS_H
