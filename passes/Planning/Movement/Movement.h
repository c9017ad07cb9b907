// Kernels that only move elements, and where a reader finds these elements if
// such a kernel is left out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_MOVEMENT_MOVEMENT_H
#define MPC_PASSES_PLANNING_MOVEMENT_MOVEMENT_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/Access.h"

namespace mpc {

/// The transpose, slice or expand of a kernel that does nothing else than move
/// what the kernel reads, without changing its type; null for any other op.
mlir::Operation *findMovement(mlir::Operation *op);

/// A value in whose memory a library can read another one, and how.
struct Source {
  mlir::Value value;
  Access access;
};

/// All of those that lead to `value` through kernels that move and views, the
/// farthest last: none where it is read where it is. Of heads that are
/// transposed first and then repeated, the transposed ones, then those in front
/// of the transpose.
llvm::SmallVector<Source> findSources(mlir::Value value);

/// Whether the function gives `value`, or a view of it, to its caller, who
/// decides where it lies.
bool isReturned(mlir::Value value);

/// Whether a library computes all that the region yields, a contraction alone:
/// it calls no kernel, and writes a product where `plan.arrange` and
/// `plan.place` say.
bool isBareLibraryContraction(RegionOp region);

/// Whether keeping all of `source` in memory, as long as `part` of it is
/// needed, costs less than a copy: what is there anyway, or is no more than
/// four parts.
bool isWorthKeeping(mlir::Value source, mlir::Value part);

/// Whether the kernel that reads `use`, an operand of a region, computes with
/// each element at its own place alone, and so finds it wherever it lies.
bool isReadByElement(mlir::OpOperand &use);

/// Makes the kernel that reads `use`, the result of the view `movement` or of a
/// kernel that does nothing but `movement`, read what that moves, through a
/// copy of `movement` as its first op.
void readThrough(mlir::OpOperand &use, mlir::Operation *movement);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_MOVEMENT_MOVEMENT_H
