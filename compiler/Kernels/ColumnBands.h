// Plans how a CPU reduces the columns of wide rows.
//
// Reducing 64 adjacent columns at a time would read short runs of rows that
// are kilobytes apart, at a half or a third of the memory bandwidth. Slices of
// wide rows therefore own many columns and read the rows in memory order, a
// band of rows at a time. A slice sums a band in registers and adds the sums to
// totals in scratch memory, a total per column. For 196 x 1024 elements and one
// sum:
//
//   totals[1024] = 0                                (8 KiB of scratch, f64)
//   for each band of 8 rows
//     for each 4 vectors of columns
//       totals += row 0 + row 1 + ... + row 7
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_COLUMNBANDS_H
#define MPC_COMPILER_KERNELS_COLUMNBANDS_H

#include "compiler/Kernels/KernelPartition.h"
#include "compiler/Kernels/KernelSpace.h"

namespace mpc {

/// Rows of a band: a CPU prefetches about eight streams at once.
inline constexpr int64_t kBandRows = 8;
/// This many independent slices keep the threads of a socket busy.
inline constexpr int64_t kEnoughSlices = 8;
/// Bytes of a total: an f64, or a value that integers and maxima fit in.
inline constexpr int64_t kTotalBytes = 8;

/// Returns the number of columns per slice for a reduction over `space` that
/// computes `sums` reductions at once. Narrow or few rows: a block of at most
/// 64 columns. Wide rows: an equal share of the columns, few enough that the
/// totals of a slice fit in half of a first-level cache.
int64_t getColumnsOfSlice(const ReductionSpace &space, int64_t sums = 1);

/// Counts the reductions of `kernel`.
int64_t countReductions(mlir::func::FuncOp kernel);

/// Returns the columns per slice if the column reduction `kernel` runs in bands
/// of rows; nullopt otherwise. Bands do not pay for narrow or few rows. Bands
/// are impossible if results of the reductions are needed to read the rows
/// again.
std::optional<int64_t> getBandColumns(mlir::func::FuncOp kernel);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_COLUMNBANDS_H
