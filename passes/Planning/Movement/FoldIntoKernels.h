// Lets generated kernels read and store through transposes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_MOVEMENT_FOLDINTOKERNELS_H
#define MPC_PASSES_PLANNING_MOVEMENT_FOLDINTOKERNELS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// Folds kernels that only transpose whole rows into elementwise kernels and
/// row reductions: into the kernel that computes the operand, or into all users
/// of the result.
void foldTransposesIntoKernels(mlir::Block &block);

/// Lets the kernel of `region` store `result` in the order of `transpose`, the
/// only user. Erases the kernel of `transpose`.
void fuseTranspose(RegionOp region, mlir::OpResult result,
                   TransposeOp transpose);

/// True if `transpose` keeps rows whole, and rows are long enough for one
/// memory transaction of a GPU each.
bool movesRows(TransposeOp transpose);

/// True if the loops of the region's kernel take rows in any order. False for
/// parameter updates and sums of gradients, which become segments of one
/// kernel: segments number elements consecutively.
bool takesAnyOrder(RegionOp region);

/// True if the loops of the region's kernel store yielded value `number`
/// element by element. False for the result of a reduction.
bool isStoredByElement(RegionOp region, unsigned number);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_MOVEMENT_FOLDINTOKERNELS_H
