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

/// The evaluations of a monitor's metric so far.
struct MonitorState {
  std::string monitor; ///< the monitor's name; empty before any
  std::optional<double> best;
  int64_t bestStep = 0;
  int64_t waited = 0; ///< evaluations since then that were no better
};

/// The decisions of a run's evaluations so far.
struct EvaluationState {
  int64_t step = 0; ///< the last evaluated step that counted
  MonitorState best, earlyStopping, plateau;
  int64_t reductions = 0; ///< of the learning rate, by a plateau
};

/// Parses "loss", "accuracy" or a metric of `--metric`, after "min:" or "max:"
/// for another direction than the usual one. Usage for other texts.
StatusOr<Monitor> parseMonitor(std::string_view text);

/// Returns a usage error if evaluations do not measure the metric: neither
/// always nor among the requested `metrics`.
Status checkMeasured(const Monitor &monitor,
                     const std::vector<std::string> &metrics);

/// Returns a usage error if the monitor watches the accuracy and the evaluation
/// of the model has none. `checkEvalMetrics` checks other metrics.
Status checkAccuracy(const Monitor &monitor, const TraineeInfo &info);

/// The monitored value; NaN if the evaluation lacks it.
double valueOf(const EvalResult &evaluation, const Monitor &monitor);

/// Resets the state if it belongs to another monitor.
void adopt(MonitorState &state, const Monitor &monitor);

/// Counts the evaluation at `step`; true if its value is better than all
/// before. A value that is not finite never is. To be better, a value must
/// exceed the best by the fraction `threshold` of the best.
bool count(MonitorState &state, const Monitor &monitor, double value,
           int64_t step, double threshold = 0);

/// Returns "accuracy 98.12%" or "loss 0.0431".
std::string describeFigure(const std::string &metric, double value);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_MONITOR_H
