// Lets kernels of our own read and store through transposes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_MOVEMENT_FOLDINTOKERNELS_H
#define MPC_PASSES_PLANNING_MOVEMENT_FOLDINTOKERNELS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// Puts transposes of whole rows that are kernels of their own in `block` into
/// the elementwise kernels and the reductions of rows that make what they move,
/// or that alone read it.
void foldTransposesIntoKernels(mlir::Block &block);

/// Lets the kernel of `region` store `result` as `transpose`, which alone reads
/// it, would; the kernel of `transpose` goes.
void absorbTranspose(RegionOp region, mlir::OpResult result,
                     TransposeOp transpose);

/// Whether `transpose` leaves rows as they are, and these are so long that a
/// GPU's memory gives each at once.
bool movesRows(TransposeOp transpose);

/// Whether the loops of a region's kernel take rows in any order. Updates of
/// parameters and sums of their gradients become segments of one kernel, which
/// number elements one after the other.
bool takesAnyOrder(RegionOp region);

/// Whether the loops of a region's kernel are at every element of what it
/// yields as `number`: not so for the sums of a reduction.
bool isStoredByElement(RegionOp region, unsigned number);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_MOVEMENT_FOLDINTOKERNELS_H
