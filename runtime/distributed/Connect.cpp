// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/Connect.h"

#include "runtime/distributed/GlooCommunicator.h"
#include "runtime/distributed/MPICommunicator.h"

#include <cstdlib>

namespace mpc::runtime {

StatusOr<std::string> chooseBackend(const Launch &launch) {
  if (launch.size == 1)
    return std::string();
  if (servesMPI(launch, [](const char *name) { return std::getenv(name); }))
    return std::string("mpi");
  if (servesGloo(launch))
    return std::string("gloo");
  return Status(StatusCode::Rank,
                std::string(nameOf(launch.launcher)) + " has started " +
                    std::to_string(launch.size) +
                    " ranks, but no MPI; use srun --mpi=pmix, or set "
                    "MASTER_ADDR to the machine of rank 0 and MASTER_PORT to "
                    "a free port there");
}

StatusOr<std::unique_ptr<Communicator>> connect(const Launch &launch,
                                                const ConnectOptions &options) {
  StatusOr<std::string> backend = chooseBackend(launch);
  if (!backend.ok())
    return backend.status();
  if (*backend == "mpi")
    return connectMPI(launch, options);
  if (*backend == "gloo")
    return connectGloo(launch, options);
  return std::unique_ptr<Communicator>();
}

} // namespace mpc::runtime
