// Counts the cores that this process may keep busy.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CORES_H
#define MPC_RUNTIME_CPU_CORES_H

#include "runtime/Status.h"

#include <string>
#include <vector>

namespace mpc::runtime {

/// Returns the number of threads that can compute in parallel, at least 1.
/// Counts the physical cores among `cpus`, since hardware threads of a core
/// share its arithmetic units. The CPU quota of the process's control group
/// limits the result. Files are read below `root`, which tests replace.
int countUsableCores(const std::vector<int> &cpus, const std::string &root);

/// Returns the number of threads that can compute in parallel on the CPUs that
/// the calling thread may use.
int countUsableCores();

/// Checks that `threads` is at most four per processor. More would be a
/// mistake, so the error is Usage.
Status checkThreads(int threads);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CORES_H
