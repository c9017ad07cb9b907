// Which ops can be run on one part of their operands after the other.
//
// A part of a tensor is one of n equal runs along axis 0: rows 0 to 3 of 8, and
// rows 4 to 7. A product of batches, for example, gives the results of four
// batches where it is given four batches of both operands.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_PARTS_H
#define MPC_COMPILER_REGIONS_PARTS_H

#include "mlir/IR/Operation.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace mpc {

/// For each operand of `op`, whether a part of the results needs only that part
/// of it, as opposed to all of it (weights, a mask for all batches). Nothing
/// where the results cannot be made in parts: a softmax along axis 0, an op
/// that computes with the index of its elements. Reshapes count as well: a part
/// of [8, 12, 64] is one of [96, 64], in row-major order.
std::optional<llvm::SmallVector<bool>> findPartedOperands(mlir::Operation *op);

/// Whether what is made of `op` for a part must be told which part that is: a
/// dropout, whose mask depends on where an element is in the whole.
bool readsPartNumber(mlir::Operation *op);

/// A copy of `op`, whose results can be made in parts, for one of `count`
/// parts. Its operands are parts already where they are to be. `number` says
/// which part it is, an i64 scalar, where the op reads that.
mlir::Operation *createPart(mlir::OpBuilder &builder, mlir::Operation *op,
                            mlir::ValueRange operands, int64_t count,
                            mlir::Value number);

/// The type of one of `count` parts of a tensor of `type`.
mlir::Type getPart(mlir::Type type, int64_t count);

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_PARTS_H
