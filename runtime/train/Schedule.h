// The learning rate as a function of the optimizer step.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SCHEDULE_H
#define MPC_RUNTIME_TRAIN_SCHEDULE_H

#include "runtime/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace mpc::runtime::train {

/// How the learning rate goes from `learningRate` to `minLearningRate` after
/// the warmup: not at all, in a straight line, along half a cosine, or by a
/// factor every so many steps. OneCycle has a warmup and an end of its own:
/// `learningRate` is the greatest.
enum class ScheduleKind { Constant, Linear, Cosine, Step, OneCycle };

struct Schedule {
  ScheduleKind kind = ScheduleKind::Constant;
  double learningRate = 1e-3;
  double minLearningRate = 0; ///< PyTorch's eta_min
  int64_t warmupSteps = 0;    ///< linear rise from learningRate / warmupSteps
  int64_t stepSize = 0;       ///< of Step: how many steps a rate holds
  double gamma = 0.1;         ///< of Step: the factor after them

  /// The rate of optimizer step `step`, counted from 0 and without skipped
  /// ones, of `totalSteps`.
  double at(int64_t step, int64_t totalSteps) const;

  /// What parseSchedule reads as the same kind.
  std::string name() const;
};

/// "constant", "linear", "cosine", "step:SIZE", "step:SIZE:GAMMA" or
/// "one-cycle", into `schedule`; Usage where it is none of them.
Status parseSchedule(std::string_view text, Schedule &schedule);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SCHEDULE_H
