// Counts evaluations.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/EvaluationRules.h"

#include "runtime/train/evaluate/EvalMetrics.h"

#include <cstdio>

namespace mpc::runtime::train {

Status EvaluationRules::check(const TraineeInfo &info, bool evaluates) const {
  struct Rule {
    const char *flag;
    const Monitor *monitor;
  };
  const Rule rules[] = {
      {"--best", options.best ? &*options.best : nullptr},
      {"--early-stopping",
       options.earlyStopping ? &options.earlyStopping->monitor : nullptr},
      {"--lr-scheduler plateau", plateau() ? &plateau()->monitor : nullptr}};
  for (const auto &[flag, monitor] : rules) {
    if (!monitor)
      continue;
    Status status =
        evaluates
            ? checkMeasured(*monitor, options.evalMetrics, lossNames(info))
            : Status(StatusCode::Usage, "needs data to evaluate on: --val-data "
                                        "or --val-split");
    if (status.ok())
      status = checkAccuracy(*monitor, info);
    if (!status.ok())
      return Status(status.getCode(),
                    std::string(flag) + ": " + status.message());
  }
  return Status();
}

void EvaluationRules::adopt(EvaluationState &state) const {
  if (options.best)
    train::adopt(state.best, *options.best);
  if (options.earlyStopping)
    train::adopt(state.earlyStopping, options.earlyStopping->monitor);
  if (!plateau())
    return;
  if (state.plateau.monitor != plateau()->monitor.name())
    state.reductions = 0;
  train::adopt(state.plateau, plateau()->monitor);
}

void EvaluationRules::countPlateau(const EvalResult &evaluation, int64_t step,
                                   EvaluationState &state) const {
  const Plateau &rule = *plateau();
  if (!rule.count(state.plateau, valueOf(evaluation, rule.monitor), step))
    return;
  // Compute the rates before and after the reduction, for a step after the
  // warmup.
  const Schedule &schedule = options.schedule;
  const int64_t settled = schedule.warmupSteps;
  const double before = schedule.at(settled, 0, state.reductions);
  const double after = schedule.at(settled, 0, ++state.reductions);
  if (after == before)
    return;
  char rate[32];
  std::snprintf(rate, sizeof(rate), "%.4g", after);
  note("plateau: " + rule.monitor.metric + " did not improve in " +
       std::to_string(rule.patience + 1) +
       (rule.patience == 0 ? " evaluation" : " evaluations") +
       "; the learning rate is " + rate + " from here");
}

bool EvaluationRules::count(const EvalResult &evaluation, int64_t step,
                            bool outsideSchedule,
                            EvaluationState &state) const {
  const bool isNew = !outsideSchedule && state.step != step;
  if (isNew) {
    state.step = step;
    if (plateau())
      countPlateau(evaluation, step, state);
    if (options.earlyStopping) {
      const Monitor &monitor = options.earlyStopping->monitor;
      train::count(state.earlyStopping, monitor, valueOf(evaluation, monitor),
                   step);
    }
  }
  return options.best && train::count(state.best, *options.best,
                                      valueOf(evaluation, *options.best), step);
}

} // namespace mpc::runtime::train
