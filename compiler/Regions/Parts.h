// Which ops can be run on one part of their operands after the other.
//
// A part of a tensor is one of n equal runs along an axis: rows 0 to 3 of 8,
// and rows 4 to 7. A product of batches, for example, gives the results of four
// batches where it is given four batches of both operands; and four rows of
// each result where it is given four rows of the left operands.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_PARTS_H
#define MPC_COMPILER_REGIONS_PARTS_H

#include "compiler/Interfaces/PartsOpInterface.h"

namespace mpc {

/// For each operand of `op`, the axis along which a part of the result along
/// `axis` needs the same part of it, or kWhole. Nothing where the result cannot
/// be made in parts: a softmax along that axis, an op that computes with the
/// index of its elements. Reshapes count as well: a part of [8, 12, 64] along
/// axis 0 is one of [96, 64], in row-major order, for counts that divide both
/// extents.
std::optional<llvm::SmallVector<int64_t>> findPartedAxes(mlir::Operation *op,
                                                         int64_t axis);

/// The axis along which the result of `operand`'s owner is made in parts where
/// the operand comes in parts along `axis`. Nothing where it is not.
std::optional<int64_t> findResultAxis(mlir::OpOperand &operand, int64_t axis);

/// Whether `op` can be run on `count` parts along `axis` of its result, where
/// findPartedAxes says that it can be run on parts.
bool canSplit(mlir::Operation *op, int64_t axis, int64_t count);

/// Whether the matrix product that reads `operand` sums along its `axis`. The
/// product is then the sum of the products of the parts.
bool isSummed(mlir::OpOperand &operand, int64_t axis);

/// The axes of the operands of a matrix product along which it sums.
llvm::SmallVector<int64_t, 2> getSummedAxes(mlir::Operation *product);

/// How many elements of a dropout are in front of each further one of `count`
/// parts along `axis`, in groups of four: its mask depends on where an element
/// is in the whole. Nothing for any other op.
std::optional<int64_t> getGroupsPerPart(mlir::Operation *op, int64_t axis,
                                        int64_t count);

/// A copy of `op` for one of `count` parts along `axis` of its result, which
/// must be possible. Its operands are parts already where they are to be. What
/// is made of a dropout starts `group` groups, an i64 scalar, behind it.
mlir::Operation *createPart(mlir::OpBuilder &builder, mlir::Operation *op,
                            mlir::ValueRange operands, int64_t axis,
                            int64_t count, mlir::Value group);

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_PARTS_H
