// Measures time and memory of a whole run.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunStatistics.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>

namespace mpc::runtime::train {

/// Returns the bytes after `key` in /proc/self/status; 0 if there is none.
static size_t readStatus(const std::string &status, const std::string &key) {
  const size_t found = status.find("\n" + key + ":");
  return found == status.npos
             ? 0
             : std::strtoull(status.c_str() + found + key.size() + 2, nullptr,
                             10) *
                   1024;
}

static std::string readStatus() {
  std::ifstream file("/proc/self/status");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void PeakMemory::look() {
  const std::string status = readStatus();
  own = std::max(own, readStatus(status, "RssAnon") +
                          readStatus(status, "RssShmem"));
  files = std::max(files, readStatus(status, "RssFile"));
}

void PeakMemory::sample() {
  constexpr std::chrono::milliseconds interval(50);
  const auto now = std::chrono::steady_clock::now();
  if (now < next)
    return;
  next = now + interval;
  look();
}

size_t PeakMemory::bytes() {
  look();
  // A peak between two samples shows in VmHWM, which includes pages of files.
  // VmHWM excludes the time before a reset, unlike getrusage.
  const size_t all = readStatus(readStatus(), "VmHWM");
  struct rusage usage;
  if (own == 0)
    return all > 0 ? all
           : getrusage(RUSAGE_SELF, &usage) == 0
               ? size_t(usage.ru_maxrss) * 1024
               : 0;
  return std::max(own, all - std::min(all, files));
}

void resetPeakMemory() {
  // Writing a 5 to clear_refs resets VmHWM: proc(5).
  std::ofstream("/proc/self/clear_refs") << "5";
}

double StepTimes::median() const {
  std::vector<double> values = kept;
  if (values.empty())
    return 0;
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2)
    return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void StepTimes::add(double milliseconds) {
  if (count++ % stride != 0)
    return;
  kept.push_back(milliseconds);
  if (kept.size() < kMost)
    return;
  for (size_t i = 0; i < kMost / 2; ++i)
    kept[i] = kept[2 * i];
  kept.resize(kMost / 2);
  stride *= 2;
}

} // namespace mpc::runtime::train
