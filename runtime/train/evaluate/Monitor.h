// Watches a metric of evaluations to decide which weights are best, when to
// stop, and when to lower the learning rate.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_MONITOR_H
#define MPC_RUNTIME_TRAIN_EVALUATE_MONITOR_H

#include "runtime/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime::train {

struct EvalResult;
struct TraineeInfo;

/// A metric, and the direction in which it improves.
struct Monitor {
  std::string metric = "loss";
  bool isMaximum = false;

  /// The text that parseMonitor reads back, like "max:accuracy".
  std::string name() const;
};

/// The history of a monitored metric: its best value, and the evaluations
/// since.
struct MonitorState {
  std::string monitor; ///< Monitor::name(); empty if the state is not in use
  std::optional<double> best;
  int64_t bestStep = 0;
  int64_t waited = 0; ///< evaluations since the best that were no better
};

/// The state of all flags that make decisions by evaluations: --best,
/// --early-stopping and --lr-scheduler plateau.
struct EvaluationState {
  int64_t step = 0; ///< step of the last evaluation that counted
  MonitorState best, earlyStopping, plateau;
  int64_t reductions = 0; ///< times that a plateau reduced the learning rate
};

/// Parses "METRIC", "min:METRIC" or "max:METRIC". METRIC is "loss", "accuracy",
/// a metric of `--metric`, or the name of one of several losses. Without "min:"
/// or "max:", the metric improves in its usual direction. Usage for other
/// texts.
StatusOr<Monitor> parseMonitor(std::string_view text);

/// Adds the monitor's metric to the requested `metrics` if evaluations would
/// not measure it otherwise.
void requestMetric(const Monitor &monitor, std::vector<std::string> &metrics);

/// Returns a usage error if evaluations do not measure the monitor's metric.
/// Evaluations measure the loss, the accuracy, the requested `metrics` and
/// several `losses`.
Status checkMeasured(const Monitor &monitor,
                     const std::vector<std::string> &metrics,
                     const std::vector<std::string> &losses = {});

/// Returns a usage error if the monitor watches the accuracy and the evaluation
/// of the model has none. `checkEvalMetrics` checks other metrics.
Status checkAccuracy(const Monitor &monitor, const TraineeInfo &info);

/// Returns the value of the monitored metric; NaN if the evaluation has none.
double valueOf(const EvalResult &evaluation, const Monitor &monitor);

/// Resets `state` if it belongs to another monitor than `monitor`.
void adopt(MonitorState &state, const Monitor &monitor);

/// Counts the evaluation at `step`. True if `value` is the best so far. A value
/// that is not finite is never the best. A better value must differ from the
/// best by more than the fraction `threshold` of the best.
bool count(MonitorState &state, const Monitor &monitor, double value,
           int64_t step, double threshold = 0);

/// Returns "accuracy 98.12%" or "loss 0.0431".
std::string describeFigure(const std::string &metric, double value);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_MONITOR_H
