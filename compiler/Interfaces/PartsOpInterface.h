// Ops that can be run on one part of their operands after the other.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PARTSOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_PARTSOPINTERFACE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

#include <optional>

namespace mpc {

/// In place of the axis of an operand that is needed as a whole: weights, a
/// mask for all batches.
inline constexpr int64_t kWhole = -1;

/// For each operand of `op`, the axis that runs along axis `axis` of the result
/// by NumPy's rules; kWhole where the operand is broadcast along that.
llvm::SmallVector<int64_t> findAlignedAxes(mlir::Operation *op, int64_t axis);

/// The type of one of `count` parts of a tensor of `type` along `axis`.
mlir::RankedTensorType getPart(mlir::Type type, int64_t axis, int64_t count);

/// A copy of `op` on `operands`, whose result is one of `count` parts of that
/// of `op` along `axis`.
mlir::Operation *clonePart(mlir::OpBuilder &builder, mlir::Operation *op,
                           mlir::ValueRange operands, int64_t axis,
                           int64_t count);

} // namespace mpc

#include "compiler/Interfaces/PartsOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_PARTSOPINTERFACE_H
