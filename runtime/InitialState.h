// What variables of the state are before the first step, where the artifact has
// no data for them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_INITIALSTATE_H
#define MPC_RUNTIME_INITIALSTATE_H

#include "runtime/Plan.h"
#include "runtime/Tensor.h"

namespace mpc::runtime {

/// Whether `variable` is the number of 64 bits that random numbers depend on,
/// which the session is given.
bool isSeed(const StateVariable &variable);

/// The value of a variable that has no data: its `fill` everywhere, in its
/// type. An error where the type cannot be converted to.
StatusOr<Tensor> createFilled(const StateVariable &variable);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_INITIALSTATE_H
