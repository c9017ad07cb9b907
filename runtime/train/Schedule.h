// The learning rate as a function of the optimizer step and, for a plateau, of
// the evaluations so far.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SCHEDULE_H
#define MPC_RUNTIME_TRAIN_SCHEDULE_H

#include "runtime/Status.h"
#include "runtime/train/evaluate/Monitor.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace mpc::runtime::train {

/// The course of the learning rate after the warmup. Constant keeps
/// `learningRate`. Linear and Cosine fall to `minLearningRate`, in a straight
/// line or along half a cosine. Step multiplies the rate by `gamma` every
/// `stepSize` steps. Plateau multiplies the rate by a factor when evaluations
/// do not improve. OneCycle rises to `learningRate` and falls, with its own
/// warmup and end.
enum class ScheduleKind { Constant, Linear, Cosine, Step, OneCycle, Plateau };

/// PyTorch's ReduceLROnPlateau with its defaults: relative threshold 1e-4, no
/// cooldown, eps 1e-8.
struct Plateau {
  static constexpr double kThreshold = 1e-4;

  double factor = 0.1;
  int64_t patience = 10; ///< evaluations in a row that may be no better
  Monitor monitor;

  /// Counts the evaluation at `step` with the metric `value`. True if the rate
  /// falls after this evaluation.
  bool count(MonitorState &state, double value, int64_t step) const;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::Constant;
  double learningRate = 1e-3;
  double minLearningRate = 0; ///< PyTorch's eta_min
  int64_t warmupSteps = 0;    ///< steps of the linear rise to learningRate
  int64_t stepSize = 0; ///< for Step: the steps between two changes of the rate
  double gamma = 0.1;   ///< for Step: the factor of each change
  Plateau plateau = {}; ///< of Plateau

  /// Returns the rate of optimizer step `step` of `totalSteps`. Steps count
  /// from 0, without skipped ones. `reductions` is the number of times that a
  /// plateau has reduced the rate so far.
  double at(int64_t step, int64_t totalSteps, int64_t reductions = 0) const;

  /// True if the rate depends on the number of steps in the whole run.
  bool hasEnd() const {
    return kind == ScheduleKind::Linear || kind == ScheduleKind::Cosine ||
           kind == ScheduleKind::OneCycle;
  }

  /// Returns a usage error if a rate is negative or not finite, if the least
  /// rate is above the greatest, or if a setting has no effect on `kind`. The
  /// message names the flags.
  Status check() const;

  /// Returns a text that parseSchedule reads back.
  std::string name() const;
};

/// Parses "constant", "linear", "cosine", "step:SIZE[:GAMMA]", "one-cycle" or
/// "plateau[:FACTOR[:PATIENCE[:METRIC]]]" into `schedule`. Usage for other
/// texts.
Status parseSchedule(std::string_view text, Schedule &schedule);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SCHEDULE_H
