// Marks contractions that a GPU may compute in tf32.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_AMP_TF32_H
#define MPC_COMPILER_DIALECT_AMP_TF32_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mpc::amp {

/// Discardable unit attribute of a contraction whose decision says tf32: a
/// GPU's library rounds the float32 operands to tf32 before it multiplies.
inline constexpr llvm::StringLiteral kTF32Attr = "amp.tf32";

inline bool roundsToTF32(mlir::Operation *op) { return op->hasAttr(kTF32Attr); }

inline void setRoundsToTF32(mlir::Operation *op) {
  op->setAttr(kTF32Attr, mlir::UnitAttr::get(op->getContext()));
}

/// Marks `to`, a contraction that replaces `from`, if `from` is marked.
inline void copyTF32(mlir::Operation *from, mlir::Operation *to) {
  if (roundsToTF32(from))
    setRoundsToTF32(to);
}

} // namespace mpc::amp

#endif // MPC_COMPILER_DIALECT_AMP_TF32_H
