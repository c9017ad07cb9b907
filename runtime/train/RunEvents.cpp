// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunEvents.h"

#include "runtime/train/StepRunner.h"

#include <cstdint>
#include <optional>

namespace mpc::runtime::train {

MetricsLine startLine(const TraineeInfo &info, const TrainOptions &options,
                      const StartReport &report, const std::string &fingerprint,
                      Digits digits) {
  MetricsLine line("start", digits);
  line.add("version", options.version)
      .add("producer", info.producer)
      .add("target", info.target)
      .add("precision", info.precision)
      .add("seed", options.seed)
      .add("model", info.modelHash)
      .add("plan", info.planHash)
      .add("data", fingerprint)
      .add("samples", report.samples)
      .add("eval_samples", report.evalSamples)
      .add("batch_size", report.batchSize)
      .add("accumulate", report.accumulate)
      .add("ranks", report.ranks)
      .add("steps", report.totalSteps == kUnlimited
                        ? std::nullopt
                        : std::optional<int64_t>(report.totalSteps))
      .add("state_bytes", info.stateBytes)
      .add("activation_bytes", info.activationBytes)
      .add("resumed_from", report.firstStep > 0
                               ? std::optional<int64_t>(report.firstStep)
                               : std::nullopt)
      .add("learning_rate",
           takesLearningRate(info)
               ? std::optional<double>(options.schedule.learningRate)
               : std::nullopt)
      .add("lr_scheduler", options.schedule.name());
  if (!info.recipe.empty())
    line.addJSON("recipe", info.recipe);
  return line;
}

MetricsLine stepLine(const StepReport &report, bool measuresAccuracy,
                     Digits digits) {
  MetricsLine line("train", digits);
  line.add("step", report.step)
      .add("micro_step", report.microStep)
      .add("epoch", report.epoch)
      .add("samples", report.samples)
      .add("loss", report.loss);
  for (const auto &[name, value] : report.terms)
    line.add(name, value);
  if (measuresAccuracy)
    line.add("accuracy", report.accuracy);
  line.add("lr", report.learningRate)
      .add("grad_norm", report.gradNorm)
      .add("loss_scale", report.lossScale)
      .add("skipped", report.skipped)
      .add("skipped_total", report.skippedTotal)
      .add("step_ms", report.stepMs);
  if (report.wireBytes)
    line.add("wire_bytes", *report.wireBytes);
  return line;
}

/// Returns the word with which metrics name the reason for the end of a run.
static const char *endOf(const TrainResult &result, const Status &status) {
  if (!status.ok())
    return "failure";
  if (result.stopSignal)
    return "signal";
  return result.end == RunEnd::EarlyStopping ? "early_stopping"
         : result.end == RunEnd::TimeLimit   ? "max_time"
                                             : "steps";
}

MetricsLine endLine(const TrainResult &result, const Status &status,
                    int exitCode, Digits digits) {
  MetricsLine line("end", digits);
  line.add("exit_code", int64_t(exitCode))
      .add("steps", result.steps)
      .add("skipped_total", result.skipped)
      .add("epochs", result.epochs)
      .add("samples", result.samples)
      .add("ended_by", endOf(result, status))
      .add("best_step", result.best ? std::optional<int64_t>(result.best->step)
                                    : std::nullopt)
      .add("best_value", result.best ? std::optional<double>(result.best->value)
                                     : std::nullopt)
      .add("median_step_ms", result.medianStepMs)
      .add("peak_memory_bytes", int64_t(result.peakMemoryBytes));
  if (!status.ok())
    line.add("message", status.message());
  return line;
}

} // namespace mpc::runtime::train
