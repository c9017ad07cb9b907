// Gives state variables their initial values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_INITIALSTATE_H
#define MPC_RUNTIME_INITIALSTATE_H

#include "runtime/Artifact.h"
#include "runtime/Device.h"

#include <cstdint>
#include <vector>

namespace mpc::runtime {

/// The initial values of a session's state. The artifact has the value of each
/// variable, as data or as `fill`, except of the seed of random numbers.
struct InitialState {
  const Artifact &artifact;
  uint64_t seed;
  /// True if the memory of all state is zero: a `fill` of 0 needs no upload.
  bool isZero;

  /// Copies the initial value of `variable` to `memory` of `device`. An error
  /// if `fill` cannot be converted to the type.
  Status upload(const StateVariable &variable, Device &device,
                void *memory) const;
  /// Does so for all variables; memory[i] is that of variable i in Plan::state,
  /// or null for a variable of another rank.
  Status upload(const std::vector<void *> &memory, Device &device) const;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_INITIALSTATE_H
