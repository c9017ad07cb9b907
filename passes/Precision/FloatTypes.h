// Reads and changes the float element types of values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_FLOATTYPES_H
#define MPC_PASSES_PRECISION_FLOATTYPES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace mpc::amp {

/// Returns the float element type of `value`; null if `value` is no float.
mlir::FloatType getFloatType(mlir::Value value);

/// True if the op has a float operand or result. Such an op has a decision.
bool hasFloats(mlir::Operation *op);

/// Returns the tensor type `type` with another element type.
mlir::RankedTensorType withElementType(mlir::Type type, mlir::Type element);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_FLOATTYPES_H
