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

StatusOr<Monitor> parseMonitor(std::string_view text) {
  const std::string_view prefix = text.substr(0, kMinimum.size());
  const bool isDirected = prefix == kMinimum || prefix == kMaximum;
  Monitor monitor;
  monitor.metric = text.substr(isDirected ? prefix.size() : 0);
  if (monitor.metric != "loss" && !isLossName(monitor.metric) &&
      !checkEvalMetric(monitor.metric).ok())
    return Status(StatusCode::Usage,
                  "unknown metric '" + monitor.metric +
                      "'; expected loss, accuracy, one of --metric or one of "
                      "several losses, with min: or max: before it to set the "
                      "direction");
  // Metrics and outputs have PyTorch's name for this loss.
  const std::string_view main = stringify(LossKind::SoftmaxCrossEntropy);
  if (monitor.metric.compare(0, main.size(), main) == 0)
    monitor.metric.replace(0, main.size(), kCrossEntropy);
  monitor.isMaximum =
      isDirected ? prefix == kMaximum : isBetterLarge(monitor.metric);
  return monitor;
}

Status checkMeasured(const Monitor &monitor,
                     const std::vector<std::string> &metrics,
                     const std::vector<std::string> &losses) {
  const std::string &metric = monitor.metric;
  const auto isIn = [&](const std::vector<std::string> &names) {
    return std::find(names.begin(), names.end(), metric) != names.end();
  };
  if (metric == "loss" || metric == "accuracy" || isIn(metrics) || isIn(losses))
    return Status();
  if (isLossName(metric) && losses.empty())
    return Status(StatusCode::Usage,
                  "there is only one loss; say loss instead of " + metric);
  if (isLossName(metric)) {
    std::string names;
    for (const std::string &loss : losses)
      names += (names.empty() ? "" : ", ") + loss;
    return Status(StatusCode::Usage,
                  "there is no loss " + metric + "; the losses are " + names);
  }
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

void requestMetric(const Monitor &monitor, std::vector<std::string> &metrics) {
  const std::string &metric = monitor.metric;
  if (metric == "loss" || metric == "accuracy" || isLossName(metric) ||
      std::find(metrics.begin(), metrics.end(), metric) != metrics.end())
    return;
  metrics.push_back(metric);
}

double valueOf(const EvalResult &evaluation, const Monitor &monitor) {
  if (monitor.metric == "loss")
    return evaluation.loss;
  if (monitor.metric == "accuracy")
    return evaluation.accuracy.value_or(NAN);
  for (const auto *figures : {&evaluation.metrics, &evaluation.terms})
    for (const auto &[name, value] : *figures)
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
  char text[64];
  std::snprintf(text, sizeof(text), isShare(metric) ? " %.2f%%" : " %.6g",
                isShare(metric) ? value * 100 : value);
  return metric + text;
}

} // namespace mpc::runtime::train
