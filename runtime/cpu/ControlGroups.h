// Finds the control groups whose limits hold for this process.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONTROLGROUPS_H
#define MPC_RUNTIME_CPU_CONTROLGROUPS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime {

/// The folder of a control group.
struct ControlGroup {
  std::string folder; ///< may not exist
  int version = 2;    ///< 1 or 2; decides the names of the files in `folder`
};

/// Returns the groups of this process and the groups around them, since each
/// group limits its descendants. In version 1, returns only groups with limits
/// of `controller`: "cpu" or "memory". In a container, the kernel may name the
/// host's folders; then only the outermost folder exists. Files are read below
/// `root`, which tests replace.
std::vector<ControlGroup> findControlGroups(std::string_view controller,
                                            const std::string &root);

/// Returns the bytes of memory that all groups together allow this process;
/// nullopt without a limit.
std::optional<uint64_t> findMemoryLimit(const std::string &root);

/// Returns the first line of a file; empty if there is none.
std::string readFirstLine(const std::string &path);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONTROLGROUPS_H
