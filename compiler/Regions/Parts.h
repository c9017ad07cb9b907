// Tells which ops can run on parts of the operands, part by part.
//
// A part of a tensor is one of n equal runs along an axis: rows 0 to 3 of 8, or
// rows 4 to 7. Given four batches of both operands, for example, a batched
// product makes four batches of the result. Given four rows of each left
// operand, the product makes four rows of each result.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_PARTS_H
#define MPC_COMPILER_REGIONS_PARTS_H

#include "compiler/Interfaces/PartsOpInterface.h"

namespace mpc {

/// Returns, for each operand of `op`, the axis along which a part of the
/// operand makes the corresponding part of the result along `axis`. kWhole
/// means that every part needs the whole operand. nullopt if the result cannot
/// be made in parts: a softmax along `axis`, or an op that uses element
/// indices. Reshapes qualify in row-major order. Along axis 0, a part of [8,
/// 12, 64] is a part of [96, 64] if the count divides both extents.
std::optional<llvm::SmallVector<int64_t>> findPartedAxes(mlir::Operation *op,
                                                         int64_t axis);

/// Returns the axis of the result along which the owner of `operand` makes one
/// part from each part of `operand` along `axis`; nullopt if there is none.
std::optional<int64_t> findResultAxis(mlir::OpOperand &operand, int64_t axis);

/// True if `op` can run on `count` parts along `axis` of its result. Expects
/// findPartedAxes(op, axis) to hold a value.
bool canSplit(mlir::Operation *op, int64_t axis, int64_t count);

/// True if the owner of `operand` is a matrix product that sums along `axis` of
/// the operand. The product is then the sum of the products of the parts.
bool isSummed(mlir::OpOperand &operand, int64_t axis);

/// Returns the axes, one per operand, along which a matrix product sums.
llvm::SmallVector<int64_t, 2> getSummedAxes(mlir::Operation *product);

/// Returns, for a dropout divided into `count` parts along `axis`, the distance
/// between the starts of consecutive parts, in groups of four elements. The
/// mask depends on an element's position in the whole tensor. nullopt for any
/// other op.
std::optional<int64_t> getGroupsPerPart(mlir::Operation *op, int64_t axis,
                                        int64_t count);

/// Creates the op for one of `count` parts along `axis` of the result of `op`.
/// Expects canSplit. `operands` must already be parts where the op needs parts.
/// The mask of a dropout starts `group` groups of four elements (an i64 scalar)
/// later than in `op`.
mlir::Operation *createPart(mlir::OpBuilder &builder, mlir::Operation *op,
                            mlir::ValueRange operands, int64_t axis,
                            int64_t count, mlir::Value group);

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_PARTS_H
