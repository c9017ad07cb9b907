// Counts the non-finite losses and the skipped updates of a run.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Divergence.h"

#include "runtime/train/checkpoint/Weights.h"
#include "runtime/train/support/Text.h"

#include <cmath>

namespace mpc::runtime::train {

/// The number of steps skipped at the floor of a dynamic loss scale that ends
/// the run. Not 1, because other batches may have finite gradients there.
static constexpr int64_t kMostAtFloor = 10;

DivergenceGuard::DivergenceGuard(const TrainOptions &options,
                                 const TraineeInfo &info)
    : options(options), dynamicScale(info.dynamicLossScale),
      isBCE(info.loss == LossKind::BCE),
      isNLL(info.loss == LossKind::NLL && info.lossTarget.empty()) {}

Status DivergenceGuard::begin(Trainee &model) {
  auto broken = findNonFiniteWeights(model);
  if (!broken.ok())
    return broken.status();
  for (const auto &[name, unused] : *broken)
    brokenBefore.insert(name);
  return Status();
}

Status DivergenceGuard::check(const StepReport &report) {
  // Count the skipped steps in a row, and how many of them had the loss scale
  // of the step before. A skipped step lowers a dynamic scale, so a scale that
  // stays equal is at its floor.
  const bool sameScale = report.skipped && last.skipped && report.lossScale &&
                         report.lossScale == last.lossScale;
  skippedAtOneScale = sameScale ? skippedAtOneScale + 1 : 0;
  skippedInARow = report.skipped ? skippedInARow + 1 : 0;
  nonfiniteInARow = std::isfinite(report.loss) ? 0 : nonfiniteInARow + 1;
  last = report;

  const std::string at = "step " + std::to_string(report.step) + ": ";
  // The reported loss is unscaled, so a lower loss scale would not make it
  // finite.
  if (options.maxNonfinite > 0 && nonfiniteInARow >= options.maxNonfinite)
    return Status(StatusCode::Numeric,
                  at + "the loss has not been finite for " +
                      counted(nonfiniteInARow, "step") + advice());
  const std::string scale =
      report.lossScale ? " of " + formatScale(*report.lossScale) : "";
  // At its floor, a dynamic scale cannot fall, so steps would be skipped for
  // ever.
  if (options.maxSkipped > 0 && dynamicScale &&
      skippedAtOneScale >= kMostAtFloor)
    return Status(StatusCode::Numeric,
                  at +
                      "gradients are not finite even at the smallest loss "
                      "scale" +
                      scale + ", for " + std::to_string(skippedAtOneScale + 1) +
                      " steps; try bf16-mixed, a smaller --lr, or smaller "
                      "inputs");
  // Otherwise the run ends after too many skips in a row, at any scale.
  if (options.maxSkipped > 0 && skippedInARow >= options.maxSkipped)
    return Status(StatusCode::Numeric,
                  at + counted(skippedInARow, "step") + " in a row " +
                      (skippedInARow == 1 ? "was" : "were") +
                      " skipped for gradients that are not finite, at a loss "
                      "scale" +
                      scale + "; try a smaller --lr, " +
                      (dynamicScale ? "" : "--loss-scale dynamic, ") +
                      "or bf16-mixed");
  return Status();
}

std::string DivergenceGuard::advice() const {
  return std::string(isBCE ? "; bce needs probabilities, and an output "
                             "outside [0,1] makes it non-finite; for logits, "
                             "use --loss bce_with_logits"
                           : "") +
         "; try a smaller --lr, --gradient-clip-val, another --precision, or "
         "smaller inputs";
}

std::string DivergenceGuard::findWarning(const StepReport &report) {
  if (!isNLL || !(report.loss < 0))
    return "";
  isNLL = false;
  return "step " + std::to_string(report.step) +
         ": nll is below 0, so the outputs are not log-probabilities; for "
         "scores, use --loss cross_entropy";
}

static std::string nameOf(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::string DivergenceGuard::findBrokenWeights(Trainee &model) const {
  auto broken = findNonFiniteWeights(model);
  if (!broken.ok())
    return "";
  for (const auto &[name, description] : *broken)
    if (brokenBefore.count(name) == 0)
      return description;
  return "";
}

Status DivergenceGuard::checkEnd(Trainee &model, const Progress &progress,
                                 bool stopped) {
  // Check the weights: the last update may have made them infinite, although
  // the loss before the update was finite.
  const std::string broken = findBrokenWeights(model);
  if (!broken.empty() && (stopped || std::isfinite(last.loss))) {
    brokenAt = progress.step;
    return Status(StatusCode::Numeric,
                  "the run ends with weights that are not finite: " + broken +
                      "; try a smaller --lr, --gradient-clip-val, another "
                      "--precision, or smaller inputs");
  }
  if (stopped)
    return Status();
  if (nonfiniteInARow > 0)
    return Status(StatusCode::Numeric, "the run ends with a loss of " +
                                           nameOf(last.loss) + advice());
  // The run failed only if every step was skipped.
  const int64_t steps = progress.step, skipped = progress.skipped;
  if (steps == 0 || skipped < steps || skippedInARow == 0)
    return Status();
  const std::string scale = last.lossScale ? ", the last at a loss scale of " +
                                                 formatScale(*last.lossScale)
                                           : "";
  return Status(
      StatusCode::Numeric,
      "nothing was trained: " +
          (steps == 1 ? "the only step was"
                      : "all " + std::to_string(steps) + " steps were") +
          " skipped for gradients that are not finite" + scale + "; try " +
          (dynamicScale ? "more steps, " : "--loss-scale dynamic, ") +
          "or bf16-mixed");
}

int64_t DivergenceGuard::firstOfRow() const {
  if (brokenAt > 0)
    return brokenAt;
  const int64_t row = nonfiniteInARow > 0 ? nonfiniteInARow : skippedInARow;
  return row > 0 ? last.step - row + 1 : 0;
}

} // namespace mpc::runtime::train
