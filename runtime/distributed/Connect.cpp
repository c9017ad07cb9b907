// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/Connect.h"

#include "runtime/distributed/GlooCommunicator.h"
#include "runtime/distributed/MPICommunicator.h"

#include <cstdlib>

namespace mpc::runtime {

StatusOr<std::unique_ptr<Communicator>> connect(const Launch &launch,
                                                const ConnectOptions &options) {
  if (launch.size == 1)
    return std::unique_ptr<Communicator>();
  if (servesMPI(launch, [](const char *name) { return std::getenv(name); }))
    return connectMPI(launch, options);
  if (servesGloo(launch))
    return connectGloo(launch, options);
  return Status(StatusCode::Rank,
                std::string(nameOf(launch.launcher)) + " has started " +
                    std::to_string(launch.size) +
                    " ranks, but no MPI; use srun --mpi=pmix, or set "
                    "MASTER_ADDR to the machine of rank 0 and MASTER_PORT to "
                    "a free port there");
}

} // namespace mpc::runtime
