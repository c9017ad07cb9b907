// Reads the kernel's files on cores and control groups.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Cores.h"

#include "runtime/cpu/ControlGroups.h"

#include <algorithm>
#include <limits>
#include <sched.h>
#include <set>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace mpc::runtime {

static constexpr int kUnlimited = std::numeric_limits<int>::max();

//===----------------------------------------------------------------------===//
// Physical cores
//===----------------------------------------------------------------------===//

/// Counts the distinct lists of sibling threads, for example "0,64".
static int countPhysicalCores(const std::vector<int> &cpus,
                              const std::string &root) {
  std::set<std::string> cores;
  for (int cpu : cpus) {
    const std::string name = "cpu" + std::to_string(cpu);
    const std::string siblings =
        readFirstLine(root + "/sys/devices/system/cpu/" + name +
                      "/topology/thread_siblings_list");
    // Without sibling information, each CPU counts as a core.
    cores.insert(siblings.empty() ? name : siblings);
  }
  return static_cast<int>(cores.size());
}

//===----------------------------------------------------------------------===//
// Quotas of control groups
//===----------------------------------------------------------------------===//

/// Returns `quota` of `period` microseconds as a number of CPUs, rounded up:
/// 1.5 CPUs keep two threads busy most of the time.
static int cpusOf(double quota, double period) {
  if (!(quota > 0) || !(period > 0))
    return kUnlimited;
  const double cpus = quota / period;
  return cpus < 1e6 ? static_cast<int>(cpus + 0.999) : kUnlimited;
}

/// Reads a quota of cgroup version 2: "200000 100000", or "max 100000".
static int quotaOf(const std::string &folder) {
  std::istringstream text(readFirstLine(folder + "/cpu.max"));
  double quota = 0, period = 0;
  return text >> quota >> period ? cpusOf(quota, period) : kUnlimited;
}

/// Reads a quota of cgroup version 1: two files; a quota of -1 means unlimited.
static int quotaOfVersion1(const std::string &folder) {
  std::istringstream quotaText(readFirstLine(folder + "/cpu.cfs_quota_us"));
  std::istringstream periodText(readFirstLine(folder + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  return quotaText >> quota && periodText >> period ? cpusOf(quota, period)
                                                    : kUnlimited;
}

/// Returns the least quota of all groups of this process.
static int readQuota(const std::string &root) {
  int least = kUnlimited;
  for (const ControlGroup &group : findControlGroups("cpu", root))
    least = std::min(least, group.version == 2 ? quotaOf(group.folder)
                                               : quotaOfVersion1(group.folder));
  return least;
}

//===----------------------------------------------------------------------===//
// Cores and quotas
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
    // sched_getaffinity fails if there are more CPUs than the set can hold.
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
