// How many cores this process may keep busy.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CORES_H
#define MPC_RUNTIME_CPU_CORES_H

#include <string>
#include <vector>

namespace mpc::runtime {

/// The number of threads that compute side by side: the physical cores among
/// `cpus` (two hardware threads of one core share its arithmetic units), and
/// no more than the CPU time that the process's control group is given. At
/// least 1. Files are read below `root`, which tests replace.
int countUsableCores(const std::vector<int> &cpus, const std::string &root);

/// The same for the CPUs that the calling thread may run on.
int countUsableCores();

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CORES_H
