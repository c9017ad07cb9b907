// Sums for each column beside the rows of a kernel.
//
// The gradients of a layer norm's input are made row by row, those of its scale
// and shift are sums over rows of what the same kernel has at hand, and so is
// that of a bias that was added to the input. On a CPU a slice of the kernel
// goes through some rows and adds them up as it goes, in scratch memory that
// stays in its caches; what it stores is the sum of a part of the rows, and a
// second kernel adds parts. For 8 x 128 rows of 768 elements, in parts of 32:
//
//   for each of 32 parts                                       (slices)
//     sums[768] = 0
//     for each of 32 rows
//       mean = sum of the row / 768                             (8 x 128 x 1)
//       for each vector of columns
//         y = x - mean; store it                                (8 x 128 x 768)
//         sums += y
//     store sums                                                (8 x 4 x 768)
//
// Parts are the same on any number of threads, and so are the bits of a sum.
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

/// Whether a kernel over rows that adds up columns in `space` has slices
/// enough: one for each part of the rows.
bool hasEnoughParts(const ReductionSpace &space);

/// In how many parts to divide each part of the rows of `space` further, of
/// which each has `extent` indices of the axis that is divided; 1 where they
/// are short or many enough. A sum over 8 x 128 rows in 8 parts of 128, for
/// example, is one in 8 x 4 parts of 32.
int64_t divideParts(const ReductionSpace &space, int64_t extent);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_COLUMNSUMS_H
