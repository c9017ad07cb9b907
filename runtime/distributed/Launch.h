// Finds the place of the process among the ranks of a distributed run, from the
// variables of launchers: torchrun, mpirun and srun.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_LAUNCH_H
#define MPC_RUNTIME_DISTRIBUTED_LAUNCH_H

#include "runtime/Status.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime {

/// Returns the value of an environment variable, or null if it is not set.
using VariableLookup = std::function<const char *(const char *name)>;

/// The launchers known to mpc.
enum class Launcher {
  None,     ///< started by hand: a single rank
  TorchRun, ///< also Kubeflow's PyTorch jobs
  OpenMPI,
  PMI, ///< mpirun of MPICH, Intel MPI and MVAPICH
  Slurm,
};

/// Returns a launcher's name for messages: "torchrun".
std::string_view nameOf(Launcher launcher);

/// The place of a process in a distributed run.
struct Launch {
  Launcher launcher = Launcher::None;
  int rank = 0; ///< in [0, size)
  int size = 1;
  int localRank = 0; ///< among the ranks on the machine; also the GPU's number
  int localSize = 1; ///< the number of ranks on the machine
  /// The address of rank 0's machine, and a free port there. Empty and 0 if the
  /// launcher names none.
  std::string masterAddress;
  int masterPort = 0;
  /// The names of the variables read, in order: "RANK".
  std::vector<std::string> variables;
  /// If no launcher is found: why a rank and a number of ranks above 1 do not
  /// count, "RANK and WORLD_SIZE are set, but MASTER_PORT is not". Else empty.
  std::string incomplete;

  /// Reads the variables of the first launcher with a rank and a size. `ranks`
  /// is the number of ranks requested by the user, 0 for any number. For 1,
  /// ignores the launcher. A Usage error, with the name of the variable, if a
  /// value is impossible; also if the launcher started another number of ranks.
  static StatusOr<Launch> find(const VariableLookup &lookup, int ranks = 0);

  /// Reads the environment of the process.
  static StatusOr<Launch> find(int ranks = 0);
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_LAUNCH_H
