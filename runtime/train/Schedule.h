// The learning rate as a function of the optimizer step, and for one kind of
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

/// How the learning rate goes from `learningRate` to `minLearningRate` after
/// the warmup: not at all, in a straight line, along half a cosine, by a factor
/// every so many steps, or by a factor whenever evaluations get no better.
/// OneCycle has a warmup and an end of its own: `learningRate` is the greatest.
enum class ScheduleKind { Constant, Linear, Cosine, Step, OneCycle, Plateau };

/// PyTorch's ReduceLROnPlateau with its defaults: relative threshold 1e-4, no
/// cooldown, eps 1e-8.
struct Plateau {
  static constexpr double kThreshold = 1e-4;

  double factor = 0.1;
  int64_t patience = 10; ///< evaluations that may be no better
  Monitor monitor;

  /// Counts the evaluation at `step`; whether the rate falls after it.
  bool count(MonitorState &state, double value, int64_t step) const;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::Constant;
  double learningRate = 1e-3;
  double minLearningRate = 0; ///< PyTorch's eta_min
  int64_t warmupSteps = 0;    ///< linear rise from learningRate / warmupSteps
  int64_t stepSize = 0;       ///< of Step: how many steps a rate holds
  double gamma = 0.1;         ///< of Step: the factor after them
  Plateau plateau = {};       ///< of Plateau

  /// The rate of optimizer step `step`, counted from 0 and without skipped
  /// ones, of `totalSteps`; a plateau's after so many reductions.
  double at(int64_t step, int64_t totalSteps, int64_t reductions = 0) const;

  /// Whether it depends on the last step.
  bool hasEnd() const {
    return kind == ScheduleKind::Linear || kind == ScheduleKind::Cosine ||
           kind == ScheduleKind::OneCycle;
  }

  /// What parseSchedule reads as the same kind.
  std::string name() const;
};

/// "constant", "linear", "cosine", "step:SIZE[:GAMMA]", "one-cycle" or
/// "plateau[:FACTOR[:PATIENCE[:METRIC]]]", into `schedule`; Usage where it is
/// none of them.
Status parseSchedule(std::string_view text, Schedule &schedule);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SCHEDULE_H
