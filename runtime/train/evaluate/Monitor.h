// A figure of the evaluations by which something is decided: which weights are
// the best, when to stop, when to lower the learning rate.
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

/// A figure, and which way is better.
struct Monitor {
  std::string metric = "loss";
  bool isMaximum = false;

  /// "max:accuracy", which parseMonitor reads as the same.
  std::string name() const;
};

/// What the evaluations so far have shown of a monitor.
struct MonitorState {
  std::string monitor; ///< its name; empty where nothing is known of any
  std::optional<double> best;
  int64_t bestStep = 0;
  int64_t waited = 0; ///< evaluations after it that were no better
};

/// What the evaluations of a run have decided so far.
struct EvaluationState {
  int64_t step = 0; ///< of the last one that counted
  MonitorState best, earlyStopping, plateau;
  int64_t reductions = 0; ///< of the learning rate, by a plateau
};

/// "loss", "accuracy" or what `--metric` measures, after "min:" or "max:" where
/// the direction is not the figure's own. Usage where it is none of them.
StatusOr<Monitor> parseMonitor(std::string_view text);

/// Usage where the evaluations will not have the figure: it is neither there by
/// itself nor among `metrics`, those that were asked for.
Status checkMeasured(const Monitor &monitor,
                     const std::vector<std::string> &metrics);

/// Usage where the evaluation of that model has no accuracy and the monitor
/// wants it; of other figures `checkEvalMetrics` knows.
Status checkAccuracy(const Monitor &monitor, const TraineeInfo &info);

/// NaN where the evaluation has none.
double valueOf(const EvalResult &evaluation, const Monitor &monitor);

/// Forgets what is known of another monitor.
void adopt(MonitorState &state, const Monitor &monitor);

/// Counts the evaluation at `step`, whether its value was better than all
/// before. What is not finite is better than nothing. `threshold` is the part
/// of the best by which a value must be better.
bool count(MonitorState &state, const Monitor &monitor, double value,
           int64_t step, double threshold = 0);

/// "accuracy 98.12%", "loss 0.0431".
std::string describeFigure(const std::string &metric, double value);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_MONITOR_H
