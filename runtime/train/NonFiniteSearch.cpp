// Repeats failed attempts to find the first non-finite value.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/NonFiniteSearch.h"

#include "runtime/train/support/Text.h"

#include <algorithm>
#include <cmath>

namespace mpc::runtime::train {

/// Limit on the time for repeating attempts, in milliseconds, since the user
/// waits.
static constexpr double kLongestReplayMs = 60000;

static constexpr const char *kFirstNonFinite = "first non-finite value: ";

static std::string unknown(const Status &status) {
  return "the first non-finite value was not found: " + status.message();
}

static std::string inStep(int64_t step, const std::string &where) {
  return "in step " + std::to_string(step) + ", " + where;
}

/// Repeats the last attempt. Its update was skipped, so the model still has the
/// state from before.
static std::string searchSkipped(Attempts &attempts, const FailedRun &failed) {
  Progress progress = failed.lastBegin;
  StatusOr<std::string> where = attempts.trace(progress);
  if (!where.ok())
    return unknown(where.status());
  return where->empty() ? "with the current loss scale, all values of the last "
                          "step are finite"
                        : "first non-finite value of the last step: " +
                              inStep(failed.end.step, *where);
}

/// Repeats attempts from the good state at `progress` up to the first failed
/// one.
static std::string searchFrom(Progress progress, Attempts &attempts,
                              const FailedRun &failed) {
  const int64_t steps = failed.firstBad - 1 - progress.step;
  if (double(steps) * failed.medianStepMs > kLongestReplayMs)
    return "mpc does not search for the first non-finite value: that would "
           "repeat " +
           counted(steps, "step") +
           " from the last checkpoint; a smaller --checkpoint-every makes the "
           "search shorter";
  // Describes a weight that is not finite after an attempt, since the attempt's
  // update made it so. Empty if all weights are finite.
  const auto broken = [&] {
    const std::string weights = failed.findBrokenWeights();
    return weights.empty() ? weights : "after the update " + weights;
  };
  // An update may have made a weight infinite without effect on the loss of the
  // next attempts. So check the weights after each attempt.
  while (progress.step + 2 < failed.firstBad) {
    StatusOr<std::optional<StepReport>> report =
        attempts.run(progress, nullptr);
    if (!report.ok())
      return unknown(report.status());
    if (const std::string where = broken(); !where.empty())
      return kFirstNonFinite + inStep(progress.step, where);
  }
  // Run the last attempts one kernel at a time, with a check of each kernel's
  // results.
  while (progress.step < failed.firstBad) {
    StatusOr<std::string> where = attempts.trace(progress);
    if (!where.ok())
      return unknown(where.status());
    if (where->empty())
      *where = broken();
    if (!where->empty())
      return kFirstNonFinite + inStep(progress.step, *where);
  }
  return "the same steps were finite when they ran again";
}

std::string explainNonFinite(Attempts &attempts, const FailedRun &failed) {
  if (failed.wasSkipped)
    return searchSkipped(attempts, failed);
  StatusOr<Progress> progress = failed.restore();
  if (!progress.ok())
    return unknown(progress.status());
  return searchFrom(*progress, attempts, failed);
}

} // namespace mpc::runtime::train
