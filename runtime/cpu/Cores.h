// How many cores this process may keep busy.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CORES_H
#define MPC_RUNTIME_CPU_CORES_H

#include "runtime/Status.h"

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

/// Usage where `threads` are more than four for each processor of the machine,
/// which is a mistake: they would be too many for all its programs.
Status checkThreads(int threads);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CORES_H
