// Constants of floats that are one number: epsilons, exponents, factors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTNUMBER_H
#define MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTNUMBER_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// The number that all elements of a constant of floats are: 2.0 of x^2.
std::optional<double> getConstantNumber(mlir::Value value);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTNUMBER_H
