// Parses, compares and describes monitored metrics.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/Monitor.h"

#include "runtime/train/data/Dataset.h"
#include "runtime/train/evaluate/EvalMetrics.h"
#include "runtime/train/evaluate/Evaluator.h"
#include "runtime/train/trainee/Trainee.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace mpc::runtime::train {

static constexpr std::string_view kMinimum = "min:", kMaximum = "max:";

std::string Monitor::name() const {
  return std::string(isMaximum ? kMaximum : kMinimum) + metric;
}

/// True if a greater value is better: for all metrics but losses and errors.
static bool isBetterLarge(const std::string &metric) {
  const char *const errors[] = {"loss", "perplexity", "mae", "rmse"};
  return std::find(std::begin(errors), std::end(errors), metric) ==
         std::end(errors);
}

StatusOr<Monitor> parseMonitor(std::string_view text) {
  const std::string_view prefix = text.substr(0, kMinimum.size());
  const bool isDirected = prefix == kMinimum || prefix == kMaximum;
  Monitor monitor;
  monitor.metric = text.substr(isDirected ? prefix.size() : 0);
  if (monitor.metric != "loss" && !checkEvalMetric(monitor.metric).ok())
    return Status(StatusCode::Usage,
                  "unknown metric '" + monitor.metric +
                      "'; expected loss, accuracy or one of --metric, with "
                      "min: or max: before it to set the direction");
  monitor.isMaximum =
      isDirected ? prefix == kMaximum : isBetterLarge(monitor.metric);
  return monitor;
}

Status checkMeasured(const Monitor &monitor,
                     const std::vector<std::string> &metrics) {
  const std::string &metric = monitor.metric;
  if (metric == "loss" || metric == "accuracy" ||
      std::find(metrics.begin(), metrics.end(), metric) != metrics.end())
    return Status();
  return Status(StatusCode::Usage, "evaluations do not measure " + metric +
                                       "; ask for it with --metric " + metric);
}

Status checkAccuracy(const Monitor &monitor, const TraineeInfo &info) {
  if (monitor.metric != "accuracy" || checkEvalMetrics(info, {"accuracy"}).ok())
    return Status();
  // `evaluate` uses the output `correct` only if it has one value per label.
  const FunctionPorts *eval = info.function(kEvalFunction);
  const Port *correct = eval ? eval->output(Role::Correct) : nullptr;
  const Port *label = eval ? eval->inputCalled(targetOf(info)) : nullptr;
  if (correct && label &&
      numElements(correct->shape) == numElements(label->shape))
    return Status();
  return Status(StatusCode::Usage,
                "the evaluation of this model has no accuracy; the loss is " +
                    describeLoss(info));
}

double valueOf(const EvalResult &evaluation, const Monitor &monitor) {
  if (monitor.metric == "loss")
    return evaluation.loss;
  if (monitor.metric == "accuracy")
    return evaluation.accuracy.value_or(NAN);
  for (const auto &[name, value] : evaluation.metrics)
    if (name == monitor.metric)
      return value;
  return NAN;
}

void adopt(MonitorState &state, const Monitor &monitor) {
  if (state.monitor == monitor.name())
    return;
  state = MonitorState();
  state.monitor = monitor.name();
}

bool count(MonitorState &state, const Monitor &monitor, double value,
           int64_t step, double threshold) {
  bool isBetter = std::isfinite(value);
  if (isBetter && state.best)
    isBetter = monitor.isMaximum ? value > *state.best * (1 + threshold)
                                 : value < *state.best * (1 - threshold);
  if (!isBetter) {
    ++state.waited;
    return false;
  }
  state.best = value;
  state.bestStep = step;
  state.waited = 0;
  return true;
}

std::string describeFigure(const std::string &metric, double value) {
  const bool isShare = metric == "accuracy" || metric.compare(0, 3, "top") == 0;
  char text[64];
  std::snprintf(text, sizeof(text), isShare ? " %.2f%%" : " %.6g",
                isShare ? value * 100 : value);
  return metric + text;
}

} // namespace mpc::runtime::train
