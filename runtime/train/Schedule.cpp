// Learning rate schedules.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace mpc::runtime::train {

/// SIZE or SIZE:GAMMA.
static bool parseSteps(std::string_view text, Schedule &schedule) {
  const size_t colon = text.find(':');
  const std::string_view size = text.substr(0, colon);
  const char *end = size.data() + size.size();
  const auto [rest, error] =
      std::from_chars(size.data(), end, schedule.stepSize);
  if (error != std::errc() || rest != end || schedule.stepSize < 1)
    return false;
  if (colon == std::string_view::npos)
    return true;
  const std::string gamma(text.substr(colon + 1));
  char *last = nullptr;
  schedule.gamma = std::strtod(gamma.c_str(), &last);
  return !gamma.empty() && *last == '\0' && std::isfinite(schedule.gamma) &&
         schedule.gamma > 0;
}

Status parseSchedule(std::string_view text, Schedule &schedule) {
  constexpr std::string_view steps = "step:";
  if (text == "constant")
    schedule.kind = ScheduleKind::Constant;
  else if (text == "linear")
    schedule.kind = ScheduleKind::Linear;
  else if (text == "cosine")
    schedule.kind = ScheduleKind::Cosine;
  else if (text == "one-cycle")
    schedule.kind = ScheduleKind::OneCycle;
  else if (text.substr(0, steps.size()) == steps &&
           parseSteps(text.substr(steps.size()), schedule))
    schedule.kind = ScheduleKind::Step;
  else
    return Status(StatusCode::Usage,
                  "expected constant, linear, cosine, step:SIZE[:GAMMA] with a "
                  "whole number of steps and a factor above 0, or one-cycle, "
                  "found '" +
                      std::string(text) + "'");
  return Status();
}

std::string Schedule::name() const {
  switch (kind) {
  case ScheduleKind::Constant:
    return "constant";
  case ScheduleKind::Linear:
    return "linear";
  case ScheduleKind::Cosine:
    return "cosine";
  case ScheduleKind::Step: {
    char text[64];
    std::snprintf(text, sizeof(text), "step:%lld:%.9g",
                  static_cast<long long>(stepSize), gamma);
    return text;
  }
  case ScheduleKind::OneCycle:
    return "one-cycle";
  }
  return "";
}

/// From `from` to `to` along half a cosine, of which `done` is behind.
static double anneal(double from, double to, double done) {
  return to + (from - to) * 0.5 * (1 + std::cos(M_PI * done));
}

/// PyTorch's OneCycleLR with its defaults: up from 1/25 of the rate for 0.3 of
/// all steps, then down to 1e-4 of where it began.
static double oneCycleAt(double greatest, int64_t step, int64_t totalSteps) {
  const double first = greatest / 25, last = first / 1e4;
  const double top = 0.3 * double(totalSteps) - 1, end = double(totalSteps) - 1;
  const double at = std::min(double(step), end);
  if (at <= top)
    return top > 0 ? anneal(first, greatest, at / top) : greatest;
  return anneal(greatest, last, (at - top) / (end - top));
}

double Schedule::at(int64_t step, int64_t totalSteps) const {
  if (kind == ScheduleKind::OneCycle)
    return oneCycleAt(learningRate, step, totalSteps);
  if (step < warmupSteps)
    return learningRate * double(step + 1) / double(warmupSteps);
  const double length = double(std::max<int64_t>(1, totalSteps - warmupSteps));
  const double done = std::min(1.0, double(step - warmupSteps) / length);
  switch (kind) {
  case ScheduleKind::Linear:
    return minLearningRate + (learningRate - minLearningRate) * (1 - done);
  case ScheduleKind::Cosine:
    return anneal(learningRate, minLearningRate, done);
  case ScheduleKind::Step:
    return std::max(minLearningRate,
                    learningRate * std::pow(gamma, double((step - warmupSteps) /
                                                          stepSize)));
  case ScheduleKind::Constant:
  case ScheduleKind::OneCycle:
    break;
  }
  return learningRate;
}

} // namespace mpc::runtime::train
