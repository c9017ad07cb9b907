// Connects ranks by MPI: Open MPI, MPICH, Intel MPI or MVAPICH. The library is
// loaded at run time, so one binary serves machines with and without MPI.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_MPICOMMUNICATOR_H
#define MPC_RUNTIME_DISTRIBUTED_MPICOMMUNICATOR_H

#include "runtime/distributed/Connect.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime {

/// True if the launcher serves MPI: mpirun does, srun with its flag --mpi, and
/// torchrun does not.
bool servesMPI(const Launch &launch, const VariableLookup &lookup);

/// Loads the MPI that fits the launcher, and initializes it, unless the program
/// around mpc has. Calls may come from any thread, one at a time. `abort` ends
/// all processes of the run, this one too. A Rank error if there is no such
/// library, or if it sees another number of ranks than the launcher.
StatusOr<std::unique_ptr<Communicator>>
connectMPI(const Launch &launch, const ConnectOptions &options);

/// An installed MPI library.
struct MPILibrary {
  std::string path;    ///< "libmpi.so.40"
  std::string version; ///< "Open MPI v4.1.4", the first line of its text
};

/// Returns the MPI libraries that mpc can load.
std::vector<MPILibrary> findMPILibraries();

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_MPICOMMUNICATOR_H
