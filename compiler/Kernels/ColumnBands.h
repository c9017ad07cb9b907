// How a CPU reads wide rows whose columns are reduced.
//
// One column after the other, 64 side by side, would read short pieces of rows
// that are kilobytes apart: half of what memory gives, or a third. So where
// rows are wide, a slice owns many columns and goes through its rows in the
// order of memory, a band of rows at a time: it sums the band's rows in
// registers and adds that to totals in scratch memory, one a column. For
// 196 x 1024 elements and one sum:
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

/// Rows of a band: as many streams as a CPU fetches ahead at once.
inline constexpr int64_t kBandRows = 8;
/// This many independent slices keep the threads of a socket busy.
inline constexpr int64_t kEnoughSlices = 8;
/// Bytes of a total: f64, or what integers and maxima fit in.
inline constexpr int64_t kTotalBytes = 8;

/// Columns that one slice of a reduction over `space` takes, of which there are
/// `sums` at once: a block, or as many of a wide row as have totals in half of
/// a first-level cache, in equal parts.
int64_t getColumnsOfSlice(const ReductionSpace &space, int64_t sums = 1);

/// The reductions of `kernel`.
int64_t countReductions(mlir::func::FuncOp kernel);

/// Columns of a slice of `kernel`, a column reduction, that goes through bands;
/// nothing where it goes through all rows of a block of columns instead: rows
/// are narrow or few, or are read again for what the reductions lead to.
std::optional<int64_t> getBandColumns(mlir::func::FuncOp kernel);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_COLUMNBANDS_H
