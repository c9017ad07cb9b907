// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/Connect.h"

#include "runtime/distributed/MPICommunicator.h"

#include <cstdlib>

namespace mpc::runtime {

StatusOr<std::unique_ptr<Communicator>> connect(const Launch &launch,
                                                const ConnectOptions &options) {
  if (launch.size == 1)
    return std::unique_ptr<Communicator>();
  if (servesMPI(launch, [](const char *name) { return std::getenv(name); }))
    return connectMPI(launch, options);
  return Status(StatusCode::Rank,
                std::string(nameOf(launch.launcher)) + " has started " +
                    std::to_string(launch.size) +
                    " ranks, but no MPI; start them by mpirun, or by srun "
                    "--mpi=pmix");
}

} // namespace mpc::runtime
