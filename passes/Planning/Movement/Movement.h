// Finds kernels that only move elements, and describes how users can read the
// source by strides instead.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_MOVEMENT_MOVEMENT_H
#define MPC_PASSES_PLANNING_MOVEMENT_MOVEMENT_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/Access.h"

namespace mpc {

/// Returns the transpose, slice or expand if `op` is a kernel that only moves
/// elements, without a change of type; null for any other op.
mlir::Operation *findMovement(mlir::Operation *op);

/// A value whose memory holds all elements of another value, and the offset and
/// strides that read them.
struct Source {
  mlir::Value value;
  Access access;
};

/// Returns all values from which `value` could be read by strides, through
/// movement kernels and views, the farthest last; empty if `value` has no
/// movement. If heads are transposed, then repeated: the transposed heads, then
/// the heads before the transpose.
llvm::SmallVector<Source> findSources(mlir::Value value);

/// True if the function returns `value` or a view of `value`. The caller of the
/// function then decides where the value lies in memory.
bool isReturned(mlir::Value value);

/// True if a library computes everything that the region yields: the region is
/// a bare contraction. The library then calls no kernel, and writes a product
/// in the order of `plan.arrange` or the box of `plan.place`.
bool isBareLibraryContraction(RegionOp region);

/// True if it is cheaper to keep `source` in memory as long as `part`, a slice
/// of `source`, is needed than to copy `part`. True for function arguments and
/// constants, which stay in memory anyway, and for sources of at most four
/// times the size of `part`.
bool isWorthKeeping(mlir::Value source, mlir::Value part);

/// True if the kernel that reads `use`, an operand of a region, reads each
/// element only to compute the element at the same index. The kernel then
/// accepts any strides.
bool isReadByElement(mlir::OpOperand &use);

/// Makes the kernel that reads `use` read the operand of `movement` instead.
/// `use` is the result of the view `movement`, or of a kernel that does nothing
/// but `movement`. A clone of `movement` becomes the kernel's first op.
void readThrough(mlir::OpOperand &use, mlir::Operation *movement);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_MOVEMENT_MOVEMENT_H
