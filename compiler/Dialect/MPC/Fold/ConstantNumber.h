// Reads float constants whose elements are all equal, such as an epsilon, an
// exponent or a factor.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTNUMBER_H
#define MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTNUMBER_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// If `value` is a float constant whose elements are all equal, returns the
/// element, for example 2.0 for the exponent of x^2. nullopt otherwise.
std::optional<double> getConstantNumber(mlir::Value value);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTNUMBER_H
