// Measures time and memory of a whole run.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunStatistics.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <sys/resource.h>

namespace mpc::runtime::train {

size_t peakMemory() {
  // Prefer VmHWM to getrusage: VmHWM excludes the time before exec, and the
  // time before a reset.
  std::ifstream status("/proc/self/status");
  constexpr std::string_view key = "VmHWM:";
  for (std::string line; std::getline(status, line);)
    if (line.compare(0, key.size(), key) == 0)
      return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? size_t(usage.ru_maxrss) * 1024
                                             : 0;
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
