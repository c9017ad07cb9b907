// Figures of a whole run.
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
  // Unlike what getrusage says, this knows nothing of before exec, nor of
  // before the reset.
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
  // 5 stands for the peak, by proc(5).
  std::ofstream("/proc/self/clear_refs") << "5";
}

double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2)
    return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

const char *endOf(const TrainResult &result, const Status &status) {
  if (!status.ok())
    return "failure";
  if (result.stopSignal)
    return "signal";
  return result.end == RunEnd::EarlyStopping ? "early_stopping"
         : result.end == RunEnd::TimeLimit   ? "max_time"
                                             : "steps";
}

} // namespace mpc::runtime::train
