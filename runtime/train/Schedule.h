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

/// The course of the learning rate from `learningRate` to `minLearningRate`
/// after the warmup: constant, in a straight line, along half a cosine, by a
/// factor every so many steps, or by a factor whenever evaluations do not
/// improve. OneCycle has its own warmup and end; `learningRate` is its maximum.
enum class ScheduleKind { Constant, Linear, Cosine, Step, OneCycle, Plateau };

/// PyTorch's ReduceLROnPlateau with its defaults: relative threshold 1e-4, no
/// cooldown, eps 1e-8.
struct Plateau {
  static constexpr double kThreshold = 1e-4;

  double factor = 0.1;
  int64_t patience = 10; ///< evaluations that may be no better
  Monitor monitor;

  /// Counts the evaluation at `step`; true if the rate falls after it.
  bool count(MonitorState &state, double value, int64_t step) const;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::Constant;
  double learningRate = 1e-3;
  double minLearningRate = 0; ///< PyTorch's eta_min
  int64_t warmupSteps = 0;    ///< linear rise from learningRate / warmupSteps
  int64_t stepSize = 0;       ///< of Step: the number of steps with one rate
  double gamma = 0.1;         ///< of Step: the factor after these steps
  Plateau plateau = {};       ///< of Plateau

  /// The rate of optimizer step `step` of `totalSteps`. Steps count from 0,
  /// without skipped ones. `reductions` counts the reductions of a plateau so
  /// far.
  double at(int64_t step, int64_t totalSteps, int64_t reductions = 0) const;

  /// True if the schedule depends on the last step.
  bool hasEnd() const {
    return kind == ScheduleKind::Linear || kind == ScheduleKind::Cosine ||
           kind == ScheduleKind::OneCycle;
  }

  /// Returns a text that parseSchedule reads back.
  std::string name() const;
};

/// Parses "constant", "linear", "cosine", "step:SIZE[:GAMMA]", "one-cycle" or
/// "plateau[:FACTOR[:PATIENCE[:METRIC]]]" into `schedule`. Usage for other
/// texts.
Status parseSchedule(std::string_view text, Schedule &schedule);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SCHEDULE_H
