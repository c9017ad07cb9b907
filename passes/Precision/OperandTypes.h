// What a decision means for the types around an op. Shared by the passes that
// count, insert and verify casts, so that they cannot disagree.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_OPERANDTYPES_H
#define MPC_PASSES_PRECISION_OPERANDTYPES_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"

namespace mpc::amp {

/// The type of a value's elements; null where they are not floats.
mlir::FloatType getFloatType(mlir::Value value);

/// The type a result is to be stored in under the decision of its op; null
/// where the result is not a float.
mlir::FloatType getStoredType(mlir::OpResult result);

/// The type a float operand must be read in; null where the op reads it in
/// whatever type it is stored in. To be asked before decisions are carried out,
/// while the value has its type in the model.
///
/// Contractions read exactly what they multiply; ops that move elements, what
/// they store; denied ops, function results, what loops and branches take and
/// operands that stay fp32 read nothing that a decision has rounded.
mlir::FloatType getRequiredType(mlir::OpOperand &operand);

/// Whether the op reads no operand below fp32: it is on the deny list, fixed,
/// or named to stay.
bool readsFP32Only(DecisionAttr decision);

/// Whether the op reads or writes floats, and so has a record.
bool hasFloats(mlir::Operation *op);

/// The tensor type of `type` with another element type.
mlir::RankedTensorType withElementType(mlir::Type type, mlir::Type element);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_OPERANDTYPES_H
