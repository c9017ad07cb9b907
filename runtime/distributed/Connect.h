// Connects the ranks of a distributed run through the library of the launcher.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_CONNECT_H
#define MPC_RUNTIME_DISTRIBUTED_CONNECT_H

#include "runtime/Communicator.h"
#include "runtime/distributed/Launch.h"

#include <chrono>
#include <memory>
#include <string>

namespace mpc::runtime {

struct ConnectOptions {
  /// The longest wait of a call for other ranks, also for the start of a rank.
  std::chrono::milliseconds rankTimeout = std::chrono::minutes(10);
};

/// Returns the library that connects the ranks of `launch`: "mpi" or "gloo".
/// Loads nothing. Empty for a single rank. A Rank error if the launcher serves
/// no library.
StatusOr<std::string> chooseBackend(const Launch &launch);

/// Connects the process with the other ranks of `launch`. Null, and no library
/// is loaded, for a single rank. All ranks must call `connect` once. If a rank
/// fails later, it must call `abort`: other ranks would wait for it. A Rank
/// error if no usable library is installed, with the package to install, or if
/// a rank does not come within the time.
StatusOr<std::unique_ptr<Communicator>>
connect(const Launch &launch, const ConnectOptions &options = {});

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_CONNECT_H
