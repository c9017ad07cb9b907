// Powers whose exponent the model fixes: x^2, x^-0.5.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_CONSTANTEXPONENT_H
#define MPC_COMPILER_DIALECT_MPC_CONSTANTEXPONENT_H

#include "compiler/Dialect/MPC/MPC.h"

#include <optional>

namespace mpc {

/// The exponent of `power` where it is one constant for all elements.
std::optional<double> getConstantExponent(PowOp power);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_CONSTANTEXPONENT_H
