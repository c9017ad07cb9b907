// Provides initial values of state variables for which the artifact has no
// data.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_INITIALSTATE_H
#define MPC_RUNTIME_INITIALSTATE_H

#include "runtime/Plan.h"
#include "runtime/Tensor.h"

namespace mpc::runtime {

/// True if `variable` is the 64-bit seed of random numbers, whose value the
/// session sets.
bool isSeed(const StateVariable &variable);

/// Returns the value of a variable without data: a tensor of its type and
/// shape, filled with `fill`. An error if `fill` cannot be converted to the
/// type.
StatusOr<Tensor> createFilled(const StateVariable &variable);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_INITIALSTATE_H
