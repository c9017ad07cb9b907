// Parses and computes learning rate schedules.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Schedule.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace mpc::runtime::train {

static bool readCount(std::string_view text, int64_t least, int64_t &value) {
  const char *end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end && value >= least;
}

static bool readFactor(std::string_view text, double &value) {
  const std::string copy(text);
  char *last = nullptr;
  value = std::strtod(copy.c_str(), &last);
  return !copy.empty() && *last == '\0' && std::isfinite(value) && value > 0;
}

/// Parses SIZE or SIZE:GAMMA.
static bool parseSteps(std::string_view text, Schedule &schedule) {
  const size_t colon = text.find(':');
  if (!readCount(text.substr(0, colon), 1, schedule.stepSize))
    return false;
  return colon == std::string_view::npos ||
         readFactor(text.substr(colon + 1), schedule.gamma);
}

/// Parses FACTOR, FACTOR:PATIENCE or FACTOR:PATIENCE:METRIC.
static Status parsePlateau(std::string_view text, Plateau &plateau) {
  const Status malformed(
      StatusCode::Usage,
      "expected plateau[:FACTOR[:PATIENCE[:METRIC]]] with a factor between 0 "
      "and 1 and a whole number of evaluations, found 'plateau:" +
          std::string(text) + "'");
  // Each part is optional, but needs the part before.
  const size_t colon = text.find(':');
  if (!readFactor(text.substr(0, colon), plateau.factor) || plateau.factor >= 1)
    return malformed;
  if (colon == std::string_view::npos)
    return Status();
  text.remove_prefix(colon + 1);
  const size_t next = text.find(':');
  if (!readCount(text.substr(0, next), 0, plateau.patience))
    return malformed;
  if (next == std::string_view::npos)
    return Status();
  StatusOr<Monitor> monitor = parseMonitor(text.substr(next + 1));
  if (monitor.ok())
    plateau.monitor = *monitor;
  return monitor.status();
}

Status parseSchedule(std::string_view text, Schedule &schedule) {
  constexpr std::string_view steps = "step:", plateau = "plateau:";
  // Only `step` and `plateau` may have parameters, after a colon.
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
  else if (text == "plateau" || text.substr(0, plateau.size()) == plateau)
    schedule.kind = ScheduleKind::Plateau;
  else
    return Status(StatusCode::Usage,
                  "expected constant, linear, cosine, step:SIZE[:GAMMA] with a "
                  "whole number of steps and a factor above 0, one-cycle, or "
                  "plateau[:FACTOR[:PATIENCE[:METRIC]]], found '" +
                      std::string(text) + "'");
  // A plateau begins with the defaults, whatever `schedule` held before.
  schedule.plateau = Plateau();
  if (text.substr(0, plateau.size()) == plateau)
    return parsePlateau(text.substr(plateau.size()), schedule.plateau);
  return Status();
}

Status Schedule::check() const {
  const auto refuse = [](const char *why) {
    return Status(StatusCode::Usage, why);
  };
  const auto isRate = [](double rate) {
    return std::isfinite(rate) && rate >= 0;
  };
  if (!isRate(learningRate) || !isRate(minLearningRate))
    return refuse("--lr and --min-lr: expected finite numbers of at least 0");
  if (warmupSteps < 0)
    return refuse("--warmup-steps: expected a number of at least 0");
  if (kind == ScheduleKind::OneCycle &&
      (warmupSteps > 0 || minLearningRate > 0))
    return refuse("--warmup-steps and --min-lr have no effect on one-cycle, "
                  "which has a warmup and an end of its own");
  if (minLearningRate > learningRate)
    return refuse("--min-lr is above --lr, and the learning rate would rise to "
                  "it; give a larger --lr or a smaller --min-lr");
  return Status();
}

std::string Schedule::name() const {
  // Checkpoints record the schedule of a run under this name (RunIdentity).
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
  case ScheduleKind::Plateau: {
    char text[64];
    std::snprintf(text, sizeof(text), "plateau:%.9g:%lld:", plateau.factor,
                  static_cast<long long>(plateau.patience));
    return text + plateau.monitor.name();
  }
  }
  return "";
}

/// Returns the value on half a cosine from `from` to `to`, at the fraction
/// `done` of the way.
static double anneal(double from, double to, double done) {
  return to + (from - to) * 0.5 * (1 + std::cos(M_PI * done));
}

/// PyTorch's OneCycleLR with its defaults: for 0.3 of all steps, the rate rises
/// from `greatest` / 25 to `greatest`. Then it falls to 1e-4 of the first rate.
static double oneCycleAt(double greatest, int64_t step, int64_t totalSteps) {
  const double first = greatest / 25, last = first / 1e4;
  const double top = 0.3 * double(totalSteps) - 1, end = double(totalSteps) - 1;
  const double at = std::min(double(step), end);
  if (at <= top)
    return top > 0 ? anneal(first, greatest, at / top) : greatest;
  return anneal(greatest, last, (at - top) / (end - top));
}

bool Plateau::count(MonitorState &state, double value, int64_t step) const {
  if (train::count(state, monitor, value, step, kThreshold) ||
      state.waited <= patience)
    return false;
  state.waited = 0;
  return true;
}

/// Returns the rate after a plateau schedule has reduced it `reductions` times.
/// Like PyTorch, skips a reduction that would change the rate by at most eps.
static double plateauAt(const Schedule &schedule, int64_t reductions) {
  assert(schedule.plateau.factor > 0 && "a factor that parsePlateau takes");
  constexpr double eps = 1e-8;
  double rate = schedule.learningRate;
  for (int64_t i = 0; i < reductions; ++i) {
    const double next =
        std::max(rate * schedule.plateau.factor, schedule.minLearningRate);
    if (!(rate - next > eps))
      break;
    rate = next;
  }
  return rate;
}

double Schedule::at(int64_t step, int64_t totalSteps,
                    int64_t reductions) const {
  assert(step >= 0 && reductions >= 0 && "steps count from 0");
  // The one-cycle schedule has its own warmup.
  if (kind == ScheduleKind::OneCycle)
    return oneCycleAt(learningRate, step, totalSteps);
  const double rate = kind == ScheduleKind::Plateau
                          ? plateauAt(*this, reductions)
                          : learningRate;
  // Other schedules rise in a straight line during the warmup. `done` is the
  // fraction of the steps after the warmup that are done.
  if (step < warmupSteps)
    return rate * double(step + 1) / double(warmupSteps);
  const double length = double(std::max<int64_t>(1, totalSteps - warmupSteps));
  const double done = std::min(1.0, double(step - warmupSteps) / length);
  assert(done >= 0 && done <= 1 && "a fraction of the steps");
  assert((kind != ScheduleKind::Step || stepSize > 0) && "steps have a size");
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
  case ScheduleKind::Plateau:
  case ScheduleKind::OneCycle:
    break;
  }
  return rate;
}

} // namespace mpc::runtime::train
