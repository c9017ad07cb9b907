// Declares the attribute that tells how a value equal to its bound passes on a
// gradient.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_CLAMPS_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_CLAMPS_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// Float attribute, 0.0 or 1.0: the share of the gradient that an element equal
/// to the bound gets.
///   - On an mpc.maximum or mpc.minimum, operand 1 bounds operand 0, as in
///     PyTorch's clamp. The bound gets no gradient from equal elements. Without
///     the attribute, equal operands get half each.
///   - On an mpc.clip, the attribute is 0.0. The default share is 1.
inline constexpr llvm::StringLiteral kClampsAttr = "mpc.clamps";

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_CLAMPS_H
