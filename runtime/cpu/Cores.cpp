// Reading the kernel's files on cores and control groups.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Cores.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sched.h>
#include <set>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace mpc::runtime {

static constexpr int kUnlimited = std::numeric_limits<int>::max();

/// The first line of a file, empty where there is none.
static std::string readLine(const std::string &path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

//===----------------------------------------------------------------------===//
// Physical cores
//===----------------------------------------------------------------------===//

/// Cores are told apart by the list of their hardware threads, such as "0,64".
static int countPhysicalCores(const std::vector<int> &cpus,
                              const std::string &root) {
  std::set<std::string> cores;
  for (int cpu : cpus) {
    const std::string name = "cpu" + std::to_string(cpu);
    const std::string siblings =
        readLine(root + "/sys/devices/system/cpu/" + name +
                 "/topology/thread_siblings_list");
    // Where the kernel does not say, each CPU is a core of its own.
    cores.insert(siblings.empty() ? name : siblings);
  }
  return static_cast<int>(cores.size());
}

//===----------------------------------------------------------------------===//
// Control groups
//===----------------------------------------------------------------------===//

/// CPUs' worth of time in `quota` of `period` microseconds, rounded up: one
/// and a half keep two threads busy for most of the time.
static int cpusOf(double quota, double period) {
  if (!(quota > 0) || !(period > 0))
    return kUnlimited;
  const double cpus = quota / period;
  return cpus < 1e6 ? static_cast<int>(cpus + 0.999) : kUnlimited;
}

/// Version 2: "200000 100000", or "max 100000".
static int quotaOf(const std::string &folder) {
  std::istringstream text(readLine(folder + "/cpu.max"));
  double quota = 0, period = 0;
  return text >> quota >> period ? cpusOf(quota, period) : kUnlimited;
}

/// Version 1: two files, and a quota of -1 where there is none.
static int quotaOfVersion1(const std::string &folder) {
  std::istringstream quotaText(readLine(folder + "/cpu.cfs_quota_us"));
  std::istringstream periodText(readLine(folder + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  return quotaText >> quota && periodText >> period ? cpusOf(quota, period)
                                                    : kUnlimited;
}

/// The least quota of the group `path` below `mount` and of those around it:
/// each limits all that are inside it. In a container the path may be the
/// host's, of which only the mount itself is there.
template <typename Quota>
static int leastQuota(const std::string &mount, std::string path,
                      Quota quotaOf) {
  int least = quotaOf(mount);
  for (; path.size() > 1; path.erase(path.rfind('/')))
    least = std::min(least, quotaOf(mount + path));
  return least;
}

/// Whether "cpu" is among the names in "cpu,cpuacct".
static bool namesCPU(const std::string &controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == "cpu")
      return true;
  return false;
}

/// Lines of /proc/self/cgroup are NUMBER:CONTROLLERS:/PATH; version 2 has no
/// controllers there.
static int readQuota(const std::string &root) {
  const std::string mount = root + "/sys/fs/cgroup";
  int least = kUnlimited;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // NUMBER:CONTROLLERS:/PATH
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (path.empty() || path[0] != '/')
      continue;
    // The quota of version 2, or of each controller of version 1 that is about
    // CPUs.
    if (controllers.empty())
      least = std::min(least, leastQuota(mount, path, quotaOf));
    else if (namesCPU(controllers))
      for (const std::string &folder : {controllers, std::string("cpu")})
        least = std::min(
            least, leastQuota(mount + "/" + folder, path, quotaOfVersion1));
  }
  return least;
}

//===----------------------------------------------------------------------===//
// Both
//===----------------------------------------------------------------------===//

int countUsableCores(const std::vector<int> &cpus, const std::string &root) {
  return std::max(1, std::min(countPhysicalCores(cpus, root), readQuota(root)));
}

int countUsableCores() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set))
        cpus.push_back(cpu);
  } else {
    // More CPUs than the set has room for.
    for (unsigned cpu = 0; cpu < std::thread::hardware_concurrency(); ++cpu)
      cpus.push_back(static_cast<int>(cpu));
  }
  return countUsableCores(cpus, "");
}

Status checkThreads(int threads) {
  const long processors = std::max(1l, sysconf(_SC_NPROCESSORS_ONLN));
  if (threads < 0)
    return Status(StatusCode::Usage, "the number of threads is negative");
  if (threads <= 4 * processors)
    return Status();
  return Status(StatusCode::Usage,
                "expected at most " + std::to_string(4 * processors) +
                    " threads, four for each processor, found " +
                    std::to_string(threads));
}

} // namespace mpc::runtime
