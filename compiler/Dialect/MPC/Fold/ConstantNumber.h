// Reads float constants whose elements all have one value: epsilons, exponents,
// factors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTNUMBER_H
#define MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTNUMBER_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// Returns the value that all elements of a float constant share, for example
/// 2.0 for the exponent of x^2. nullopt for any other value.
std::optional<double> getConstantNumber(mlir::Value value);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTNUMBER_H
