// Declares the interface of ops that can run part by part, and helpers for
// parts. A part is one of n equal runs of a tensor along an axis.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PARTSOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_PARTSOPINTERFACE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

#include <optional>

namespace mpc {

/// Stands in place of an axis if every part needs the whole operand, such as
/// weights, or a mask for all batches.
inline constexpr int64_t kWhole = -1;

/// Returns, for each operand of `op`, the axis that corresponds to axis `axis`
/// of the result by NumPy's rules; kWhole if the operand is broadcast.
llvm::SmallVector<int64_t> findAlignedAxes(mlir::Operation *op, int64_t axis);

/// Returns the type of one part if a tensor of `type` is divided into `count`
/// parts along `axis`.
mlir::RankedTensorType getPart(mlir::Type type, int64_t axis, int64_t count);

/// Clones `op` for `operands`, which are parts already. The result is a part,
/// one of `count` along `axis`, of the result of `op`.
mlir::Operation *clonePart(mlir::OpBuilder &builder, mlir::Operation *op,
                           mlir::ValueRange operands, int64_t axis,
                           int64_t count);

} // namespace mpc

#include "compiler/Interfaces/PartsOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_PARTSOPINTERFACE_H
