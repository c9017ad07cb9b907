// Names the attributes of constants that the Precision stage makes.
//
// Ranges and types follow from the constants of the model, so the verifier must
// know what a constant of the stage stands for.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_AMP_CONSTANTATTRS_H
#define MPC_COMPILER_DIALECT_AMP_CONSTANTATTRS_H

#include "llvm/ADT/StringRef.h"

namespace mpc::amp {

/// Discardable attribute of a float32 constant of the model that the stage has
/// rounded to a low type. An array<f64: ...> with the smallest element, the
/// largest element and the root mean square of all elements before rounding.
/// Only finite elements count; the array is empty if no element is finite.
inline constexpr llvm::StringLiteral kRoundedAttr = "amp.rounded";
/// Discardable attribute, without a value, of the constant 1 that replaces the
/// seed of a backward pass without a loss scale.
inline constexpr llvm::StringLiteral kSeedAttr = "amp.seed";

} // namespace mpc::amp

#endif // MPC_COMPILER_DIALECT_AMP_CONSTANTATTRS_H
