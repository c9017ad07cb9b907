// Names the attribute of a maximum or minimum that bounds a value.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_CLAMPS_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_CLAMPS_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// 0.0 or 1.0 of an mpc.maximum or mpc.minimum whose operand 1 is the bound of
/// operand 0, as in PyTorch's clamp. Where both are equal, operand 0 gets this
/// share of the gradient, and the bound none. Without the attribute, each
/// operand gets one half.
inline constexpr llvm::StringLiteral kClampsAttr = "mpc.clamps";

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_CLAMPS_H
