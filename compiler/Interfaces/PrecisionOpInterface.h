// What the Precision stage asks an op.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H

#include "compiler/Interfaces/RegionOpInterface.h"

#include "mlir/IR/DialectImplementation.h"

#include "compiler/Interfaces/PrecisionClass.h.inc"

namespace mpc {

/// What the default policy says of an op, in the words of the op's definition.
struct OpPolicy {
  /// ONNX's names for it, by which users may call it.
  llvm::SmallVector<llvm::StringRef, 2> onnx;
  /// Its class by the low type.
  PrecisionClass fp16, bf16;
  /// One clause, for explanations.
  llvm::StringRef why;
  /// Bit i: operand or result i stays fp32 whatever the class.
  unsigned fp32Operands = 0, fp32Results = 0;
  /// Its result's range grows with its shape.
  bool unbounded = false;
};

/// What it says of an op that has the classes of another one: of a gradient.
struct FollowedPolicy {
  llvm::StringRef leader;
  unsigned fp32Operands, fp32Results;
};

/// Of ops whose getDefaultPolicy() is a row of the policy.
template <typename ConcreteOp>
class PolicyTrait : public mlir::OpTrait::TraitBase<ConcreteOp, PolicyTrait> {};
/// Of ops whose row is that of another op, as an attribute says which.
template <typename ConcreteOp>
class SharedPolicyTrait
    : public mlir::OpTrait::TraitBase<ConcreteOp, SharedPolicyTrait> {};

/// The multiplications and additions of an op that multiplies its first two
/// operands; 0 where it contracts none.
double countFlopsOfProduct(mlir::Operation *op);
} // namespace mpc

#include "compiler/Interfaces/PrecisionOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H
