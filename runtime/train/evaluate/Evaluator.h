// Evaluation over a whole data set, whatever its size modulo the batch.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_EVALUATOR_H
#define MPC_RUNTIME_TRAIN_EVALUATE_EVALUATOR_H

#include "runtime/Status.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/trainee/Trainee.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

class MetricsLine;

struct EvalResult {
  double loss = 0;
  /// Fraction of labels for which the output of role "correct" is 1, or of
  /// binary targets that are predicted; only where the loss has such.
  std::optional<double> accuracy;
  /// What was asked for beside them, in that order.
  std::vector<std::pair<std::string, double>> metrics;
  int64_t samples = 0; ///< counted
  int64_t leftOut = 0; ///< not counted, as they fill no batch
  /// Whether they are left out because what fills up a batch changes the losses
  /// of its samples; else there is no loss per sample.
  bool areDependent = false;
  bool stopped = false; ///< ended early: the other members say nothing
};

/// Labels that were got right, of those that count.
struct LabelCount {
  int64_t correct = 0;
  int64_t labels = 0;
};

/// Adds what the first samples' labels got right. `correct`, of doubles, has a
/// 1 or a 0 for each label of the batch, of which those in `labels` belong to
/// samples that count.
void countCorrect(const Tensor &correct, const std::vector<int64_t> &labels,
                  const std::optional<int64_t> &ignored, LabelCount &totals);

/// The label that counts nowhere, if there is one.
std::optional<int64_t> findIgnoredLabel(const TraineeInfo &info);

/// Runs `eval` over all samples of `data` in order. The last batch is filled up
/// with repeated samples that are not counted. Where the function has no
/// output of role "sample_loss", or the losses of samples depend on what fills
/// up their batch, the rest that fills no batch is left out.
/// `stop`, where given, ends it between two batches when it is not 0.
/// `metrics` are names that checkEvalMetrics let pass. `progress`, where given,
/// is told after every batch how many samples have been evaluated.
StatusOr<EvalResult>
evaluate(Trainee &model, const Dataset &data,
         const std::atomic<int> *stop = nullptr,
         const std::vector<std::string> &metrics = {},
         const std::function<void(int64_t samples)> &progress = nullptr);

/// Why samples were left out.
std::string whyLeftOut(const EvalResult &result);

/// Adds the fields of an "eval" event: eval_loss, eval_accuracy, ...
void addEvaluation(MetricsLine &line, const EvalResult &result);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_EVALUATOR_H
