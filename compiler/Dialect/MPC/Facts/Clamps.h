// Declares the attribute of an mpc.maximum or mpc.minimum that bounds a value,
// as in PyTorch's clamp.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_CLAMPS_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_CLAMPS_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// Float attribute, 0.0 or 1.0, of an mpc.maximum or mpc.minimum that bounds
/// operand 0 by operand 1, as PyTorch's clamp does. If both operands are equal,
/// operand 0 gets this share of the gradient, and the bound gets none. Without
/// the attribute, each operand gets half of the gradient then.
inline constexpr llvm::StringLiteral kClampsAttr = "mpc.clamps";

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_CLAMPS_H
