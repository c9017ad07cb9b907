// Connects the ranks of a distributed run through the library that fits their
// launcher: MPI under mpirun, Gloo under torchrun.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_CONNECT_H
#define MPC_RUNTIME_DISTRIBUTED_CONNECT_H

#include "runtime/Communicator.h"
#include "runtime/distributed/Launch.h"

#include <chrono>
#include <memory>

namespace mpc::runtime {

struct ConnectOptions {
  /// The longest time that a call waits for other ranks, also for their start.
  std::chrono::milliseconds rankTimeout = std::chrono::minutes(10);
};

/// Connects this process with the other ranks of `launch`. Null, and no library
/// is loaded, if there is one rank. All ranks must call `connect` once per
/// process. A Rank error if no usable library is installed, with the package to
/// install, or if a rank does not come within the time.
StatusOr<std::unique_ptr<Communicator>>
connect(const Launch &launch, const ConnectOptions &options = {});

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_CONNECT_H
