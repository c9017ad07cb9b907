// Going back to where it began.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/NonFiniteSearch.h"

#include "runtime/train/support/Text.h"

#include <algorithm>
#include <cmath>

namespace mpc::runtime::train {

/// What a user waits for at the end of a run that failed.
static constexpr double kLongestReplayMs = 60000;

/// Where an attempt begins, told by where it ended.
static Progress beginningOf(Progress end, int64_t stepsPerEpoch) {
  --end.step;
  end.epoch = end.step / stepsPerEpoch;
  end.stepInEpoch = end.step % stepsPerEpoch;
  return end;
}

static std::string unknown(const Status &status) {
  return "where it began is not known: " + status.message();
}

static std::string inStep(int64_t step, const std::string &where) {
  return "first, in step " + std::to_string(step) + ", " + where;
}

/// The last attempt once more, from the state that skipping it left.
static std::string searchSkipped(Attempts &attempts, const FailedRun &failed) {
  Progress progress = beginningOf(failed.end, failed.stepsPerEpoch);
  --progress.skipped;
  StatusOr<std::string> where = attempts.trace(progress);
  if (!where.ok())
    return unknown(where.status());
  return where->empty() ? "with the loss scale as it is now all values of the "
                          "last step are finite"
                        : inStep(failed.end.step, *where);
}

/// The attempts before the first that failed, from a state that is good.
static std::string searchFrom(Progress progress, Attempts &attempts,
                              const FailedRun &failed) {
  const int64_t steps = failed.firstBad - 1 - progress.step;
  if (double(steps) * failed.medianStepMs > kLongestReplayMs)
    return "where it began is not looked for: that would take " +
           counted(steps, "step") +
           " from the last checkpoint; --checkpoint-every makes it fewer";
  // Weights that are not finite between steps: the update made them so.
  const auto broken = [&] {
    const std::string weights = failed.findBrokenWeights();
    return weights.empty() ? weights : "after the update " + weights;
  };
  // The last update before it may have made a parameter infinite, and so may
  // earlier ones where the loss does not show it.
  while (progress.step + 2 < failed.firstBad) {
    StatusOr<std::optional<StepReport>> report =
        attempts.run(progress, nullptr);
    if (!report.ok())
      return unknown(report.status());
    if (const std::string where = broken(); !where.empty())
      return inStep(progress.step, where);
  }
  // The last steps run one kernel at a time, with a look at what each wrote.
  while (progress.step < failed.firstBad) {
    StatusOr<std::string> where = attempts.trace(progress);
    if (!where.ok())
      return unknown(where.status());
    if (where->empty())
      *where = broken();
    if (!where->empty())
      return inStep(progress.step, *where);
  }
  return "run once more, the steps up to there are finite";
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
