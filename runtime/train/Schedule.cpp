// Learning rate schedules.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Schedule.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace mpc::runtime::train {

StatusOr<ScheduleKind> parseScheduleKind(std::string_view name) {
  if (name == "constant")
    return ScheduleKind::Constant;
  if (name == "linear")
    return ScheduleKind::Linear;
  if (name == "cosine")
    return ScheduleKind::Cosine;
  return Status(StatusCode::Usage, "unknown learning rate schedule '" +
                                       std::string(name) +
                                       "'; one of constant, linear, cosine");
}

double Schedule::at(int64_t step, int64_t totalSteps) const {
  if (step < warmupSteps)
    return learningRate * double(step + 1) / double(warmupSteps);
  const double length = double(std::max<int64_t>(1, totalSteps - warmupSteps));
  const double done = std::min(1.0, double(step - warmupSteps) / length);
  const double range = learningRate - minLearningRate;
  switch (kind) {
  case ScheduleKind::Constant:
    return learningRate;
  case ScheduleKind::Linear:
    return minLearningRate + range * (1 - done);
  case ScheduleKind::Cosine:
    return minLearningRate + range * 0.5 * (1 + std::cos(M_PI * done));
  }
  return learningRate;
}

} // namespace mpc::runtime::train
