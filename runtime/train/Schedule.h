// The learning rate as a function of the optimizer step.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SCHEDULE_H
#define MPC_RUNTIME_TRAIN_SCHEDULE_H

#include "runtime/Status.h"

#include <cstdint>
#include <string_view>

namespace mpc::runtime::train {

/// How the learning rate goes from `learningRate` to `minLearningRate` after
/// the warmup: not at all, in a straight line, or along half a cosine.
enum class ScheduleKind { Constant, Linear, Cosine };

/// The kind called "constant", "linear" or "cosine".
StatusOr<ScheduleKind> parseScheduleKind(std::string_view name);

struct Schedule {
  ScheduleKind kind = ScheduleKind::Constant;
  double learningRate = 1e-3;
  double minLearningRate = 0; ///< PyTorch's eta_min
  int64_t warmupSteps = 0;    ///< linear rise from learningRate / warmupSteps

  /// The rate of optimizer step `step`, counted from 0 and without skipped
  /// ones, of `totalSteps`.
  double at(int64_t step, int64_t totalSteps) const;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SCHEDULE_H
