// Derives, from the decision of an op, the types of its operands and results.
// The passes that count, insert and verify casts use these functions, so that
// all agree.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_OPERANDTYPES_H
#define MPC_PASSES_PRECISION_OPERANDTYPES_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"

namespace mpc::amp {

/// Returns the float element type of `value`; null if `value` is no float.
mlir::FloatType getFloatType(mlir::Value value);

/// Returns the float type in which the decision of the op stores `result`; null
/// if `result` is no float.
mlir::FloatType getStoredType(mlir::OpResult result);

/// Returns the type to which `operand` must be cast; null if the op reads any
/// stored type. Call this function before InsertCasts changes types: it
/// compares with the type of the model.
///
/// Contractions read the type in which they multiply. Ops that move elements
/// read and store equal types. Denied ops, function results, operands of loops
/// and conditions, and operands that the policy keeps in fp32 read the type of
/// the model.
mlir::FloatType getRequiredType(mlir::OpOperand &operand);

/// True if the op has a float operand or result. Such an op has a decision.
bool hasFloats(mlir::Operation *op);

/// Returns the tensor type `type` with another element type.
mlir::RankedTensorType withElementType(mlir::Type type, mlir::Type element);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_OPERANDTYPES_H
