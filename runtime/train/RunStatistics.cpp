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

/// Returns the word with which metrics name the reason for the end of a run.
static const char *endOf(const TrainResult &result, const Status &status) {
  if (!status.ok())
    return "failure";
  if (result.stopSignal)
    return "signal";
  return result.end == RunEnd::EarlyStopping ? "early_stopping"
         : result.end == RunEnd::TimeLimit   ? "max_time"
                                             : "steps";
}

MetricsLine endLine(const TrainResult &result, const Status &status,
                    int exitCode, Digits digits) {
  MetricsLine line("end", digits);
  line.add("exit_code", int64_t(exitCode))
      .add("steps", result.steps)
      .add("skipped_total", result.skipped)
      .add("epochs", result.epochs)
      .add("samples", result.samples)
      .add("ended_by", endOf(result, status))
      .add("best_step", result.best ? std::optional<int64_t>(result.best->step)
                                    : std::nullopt)
      .add("best_value", result.best ? std::optional<double>(result.best->value)
                                     : std::nullopt)
      .add("median_step_ms", result.medianStepMs)
      .add("peak_memory_bytes", int64_t(result.peakMemoryBytes));
  if (!status.ok())
    line.add("message", status.message());
  return line;
}

} // namespace mpc::runtime::train
