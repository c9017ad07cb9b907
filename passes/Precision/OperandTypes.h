// The types that a decision implies for the values around an op. The passes
// that count, insert and verify casts share the functions, so that all agree.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_OPERANDTYPES_H
#define MPC_PASSES_PRECISION_OPERANDTYPES_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"

namespace mpc::amp {

/// Returns the element type of a value; null if not a float.
mlir::FloatType getFloatType(mlir::Value value);

/// Returns the type in which the op's decision stores `result`; null if the
/// result is not a float.
mlir::FloatType getStoredType(mlir::OpResult result);

/// Returns the type in which an op must read a float operand; null if the op
/// reads any stored type. Call before the decisions are carried out, while the
/// value still has the model's type.
///
/// Contractions read the type they multiply. Ops that move elements read the
/// type they store. Denied ops, function results, operands of loops and
/// branches, and operands kept in fp32 read nothing that a decision has
/// rounded.
mlir::FloatType getRequiredType(mlir::OpOperand &operand);

/// True if the op reads no operand below fp32, because the op is denied or
/// pinned to fp32.
bool readsFP32Only(DecisionAttr decision);

/// True if the op reads or writes floats, and so has a record.
bool hasFloats(mlir::Operation *op);

/// Returns the tensor type `type` with another element type.
mlir::RankedTensorType withElementType(mlir::Type type, mlir::Type element);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_OPERANDTYPES_H
