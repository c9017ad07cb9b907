// Shows the kernels of an artifact to Linux perf.
//
// perf finds the names of kernels by itself if the artifact is a file that
// still exists when `perf report` runs. A model that was compiled in the same
// process has no such file. For these, and for tools that read perf's maps, the
// environment variable MPC_PERF_MAP=1 asks for a map.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_PERFMAP_H
#define MPC_RUNTIME_PERFMAP_H

#include "runtime/Status.h"

#include <string>
#include <vector>

namespace mpc::runtime {

/// True if the environment asks for a map: MPC_PERF_MAP is neither unset, empty
/// nor 0.
bool isPerfMapWanted();

/// Adds the functions `symbols` of `library`, a handle of dlopen, to
/// /tmp/perf-PID.map. Moves the code of the library to anonymous memory at the
/// same addresses first, because perf looks into the map only for such memory.
/// Call before any thread runs the code. IO if the map cannot be written, or if
/// the system forbids anonymous code.
Status addToPerfMap(void *library, const std::vector<std::string> &symbols);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_PERFMAP_H
