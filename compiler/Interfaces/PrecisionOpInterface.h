// Declares the questions that the Precision stage asks an op.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H

#include "compiler/Interfaces/RegionOpInterface.h"

#include "mlir/IR/DialectImplementation.h"

#include "compiler/Interfaces/PrecisionClass.h.inc"

namespace mpc {

/// The default policy of an op, from the op's definition.
struct OpPolicy {
  /// ONNX's names of the op; users may use them too.
  llvm::SmallVector<llvm::StringRef, 2> onnx;
  /// The class of the op for each low type.
  PrecisionClass fp16, bf16;
  /// The reason, as one clause for explanations.
  llvm::StringRef why;
  /// Bit i: operand or result i stays fp32 in any class.
  unsigned fp32Operands = 0, fp32Results = 0;
  /// True if the range of the result grows with its shape.
  bool unbounded = false;
};

/// The policy of an op with the class of another op, such as of a gradient.
struct FollowedPolicy {
  llvm::StringRef leader;
  unsigned fp32Operands, fp32Results;
};

/// Marks ops whose getDefaultPolicy() is a row of the policy.
template <typename ConcreteOp>
class PolicyTrait : public mlir::OpTrait::TraitBase<ConcreteOp, PolicyTrait> {};
/// Marks ops that share the row of another op, named by an attribute.
template <typename ConcreteOp>
class SharedPolicyTrait
    : public mlir::OpTrait::TraitBase<ConcreteOp, SharedPolicyTrait> {};

/// Counts the multiplications and additions of an op that multiplies its first
/// two operands; 0 if the op is no contraction.
double countFlopsOfProduct(mlir::Operation *op);
} // namespace mpc

#include "compiler/Interfaces/PrecisionOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H
