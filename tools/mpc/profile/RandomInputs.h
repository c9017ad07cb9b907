// Inputs for a model without data.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PROFILE_RANDOMINPUTS_H
#define MPC_TOOLS_MPC_PROFILE_RANDOMINPUTS_H

#include "runtime/Session.h"

namespace mpc::tools {

/// Sets the inputs of `function` to random values of the right types and
/// shapes: floats of a normal distribution (labels: uniform in [0, 1)), indices
/// and class numbers in their range, and other integers 0 or 1. The learning
/// rate is 0, so weights keep their values.
runtime::Status setRandomInputs(runtime::Session &session,
                                const runtime::Function &function);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PROFILE_RANDOMINPUTS_H
