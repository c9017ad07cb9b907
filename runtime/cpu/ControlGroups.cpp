// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ControlGroups.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace mpc::runtime {

std::string readFirstLine(const std::string &path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

/// True if `controller` is among names such as "cpu,cpuacct".
static bool namesController(const std::string &names,
                            std::string_view controller) {
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');)
    if (name == controller)
      return true;
  return false;
}

/// Adds the group `path` below `mount`, and the groups around it.
static void addGroups(const std::string &mount, std::string path, int version,
                      std::vector<ControlGroup> &groups) {
  groups.push_back({mount, version});
  for (; path.size() > 1; path.erase(path.rfind('/')))
    groups.push_back({mount + path, version});
}

std::vector<ControlGroup> findControlGroups(std::string_view controller,
                                            const std::string &root) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::vector<ControlGroup> groups;
  // A line is NUMBER:CONTROLLERS:/PATH. Version 2 names no controllers.
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (path.empty() || path[0] != '/')
      continue;
    if (controllers.empty()) {
      addGroups(mount, path, /*version=*/2, groups);
    } else if (namesController(controllers, controller)) {
      // Systems mount several controllers together, with a link for each.
      addGroups(mount + "/" + controllers, path, /*version=*/1, groups);
      if (controllers != controller)
        addGroups(mount + "/" + std::string(controller), path, /*version=*/1,
                  groups);
    }
  }
  return groups;
}

std::optional<uint64_t> findMemoryLimit(const std::string &root) {
  // Version 1 writes nearly 2^63 for no limit, and version 2 the word max.
  constexpr uint64_t unlimited = uint64_t(1) << 62;
  uint64_t least = unlimited;
  for (const ControlGroup &group : findControlGroups("memory", root)) {
    const std::string text = readFirstLine(
        group.folder +
        (group.version == 2 ? "/memory.max" : "/memory.limit_in_bytes"));
    uint64_t bytes = 0;
    const char *const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, bytes);
    if (error == std::errc() && rest == end)
      least = std::min(least, bytes);
  }
  return least < unlimited ? std::optional<uint64_t>(least) : std::nullopt;
}

} // namespace mpc::runtime
