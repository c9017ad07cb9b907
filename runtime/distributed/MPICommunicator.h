// Connects ranks by MPI: Open MPI, MPICH, Intel MPI or MVAPICH. The library is
// loaded at run time, so the same binary serves machines with and without MPI.
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

/// Loads the MPI of the launcher, and initializes MPI unless the program around
/// mpc has. Any thread may call the communicator, but only a single thread at a
/// time. `abort` ends all processes of the run, including the caller. A Rank
/// error if there is no library, or if the library and the launcher disagree on
/// the number of ranks.
StatusOr<std::unique_ptr<Communicator>>
connectMPI(const Launch &launch, const ConnectOptions &options);

/// An installed MPI library.
struct MPILibrary {
  std::string path;    ///< "libmpi.so.40"
  std::string version; ///< "Open MPI v4.1.4", the first line of the text
};

/// Returns the MPI libraries on the machine.
std::vector<MPILibrary> findMPILibraries();

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_MPICOMMUNICATOR_H
