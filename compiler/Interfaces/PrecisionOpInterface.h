// Declares the interface with the questions that the Precision stage asks an
// op.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H

#include "compiler/Interfaces/RegionOpInterface.h"

#include "mlir/IR/DialectImplementation.h"

#include "compiler/Interfaces/PrecisionClass.h.inc"

namespace mpc {

/// The default precision policy of an op, as the op's definition states it.
struct OpPolicy {
  /// The ONNX names of the op. Users may write these names in policy files too.
  llvm::SmallVector<llvm::StringRef, 2> onnx;
  /// The class of the op for each low type.
  PrecisionClass fp16, bf16;
  /// The reason for the classes, as one clause for explanations to users.
  llvm::StringRef why;
  /// Bit i: operand or result i stays fp32 in any class.
  unsigned fp32Operands = 0, fp32Results = 0;
  /// True if the range of the result grows with the shape, as for a sum.
  bool unbounded = false;
};

/// The policy of an op that shares the classes of another op, the leader. Most
/// such ops are gradients.
struct FollowedPolicy {
  llvm::StringRef leader;
  unsigned fp32Operands, fp32Results;
};

/// Marks ops that define a row of the policy table, by getDefaultPolicy().
template <typename ConcreteOp>
class PolicyTrait : public mlir::OpTrait::TraitBase<ConcreteOp, PolicyTrait> {};
/// Marks ops that share the policy row of another op, which an attribute of the
/// definition names.
template <typename ConcreteOp>
class SharedPolicyTrait
    : public mlir::OpTrait::TraitBase<ConcreteOp, SharedPolicyTrait> {};

/// Marks ops f with f(s * x) = s * f(x) for each s > 0. Here x is operand 0,
/// and the other operands are constants. Examples are sums, maxima, relu and
/// gradient ops. Operand 0 of a gradient op is the gradient of the forward
/// result.
template <typename ConcreteOp>
class LinearInFirstOperand
    : public mlir::OpTrait::TraitBase<ConcreteOp, LinearInFirstOperand> {};

/// Counts the multiplications and additions of an op that multiplies its first
/// two operands; 0 if the op is no contraction.
double countFlopsOfProduct(mlir::Operation *op);
} // namespace mpc

#include "compiler/Interfaces/PrecisionOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H
