// Evaluates a model on a whole data set, whose size need not be a multiple of
// the batch size.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_EVALUATOR_H
#define MPC_RUNTIME_TRAIN_EVALUATE_EVALUATOR_H

#include "runtime/Status.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/evaluate/ClassReport.h"
#include "runtime/train/support/Ranks.h"
#include "runtime/train/trainee/Trainee.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

class MetricsLine;

struct EvalResult {
  double loss = 0;
  /// The fraction of correct labels (the output of role "correct" is 1) or of
  /// correctly predicted binary targets; nullopt if the loss has neither.
  std::optional<double> accuracy;
  /// The values of several losses by name, without their factors. Empty for a
  /// single loss.
  std::vector<std::pair<std::string, double>> terms;
  /// The classes of each loss that has classes, if requested.
  std::vector<ClassReport> classes;
  /// The requested metrics, in the order of the request.
  std::vector<std::pair<std::string, double>> metrics;
  int64_t samples = 0; ///< samples in the result
  int64_t leftOut = 0; ///< samples not in the result, since they fill no batch
  /// The reason why samples were left out. True if their losses depend on the
  /// samples that would fill up the batch. False if there is no loss per
  /// sample.
  bool areDependent = false;
  bool stopped = false; ///< ended early; all other members are invalid
};

/// The number of correct labels, and of all labels that are not ignored.
struct LabelCount {
  int64_t correct = 0;
  int64_t labels = 0;
};

/// Adds the labels of one batch to `totals`. `correct` has a double 1 or 0 for
/// each label of the batch. `labels` are the labels of the evaluated samples,
/// which come first in the batch. Skips labels equal to `ignored`.
void countCorrect(const Tensor &correct, const std::vector<int64_t> &labels,
                  const std::optional<int64_t> &ignored, LabelCount &totals);

/// Returns the label that losses and metrics ignore; nullopt if there is none.
std::optional<int64_t> findIgnoredLabel(const TraineeInfo &info);

/// Runs `eval` over all samples of `data` in order. Repeated samples, which do
/// not count, fill up the last batch. An incomplete batch is left out if there
/// is no output of role "sample_loss", or if losses depend on the samples that
/// fill up the batch.
///
/// If `stop` is not null, a nonzero value ends the evaluation between two
/// batches. `metrics` are names that checkEvalMetrics accepted. `progress`, if
/// set, gets the number of evaluated samples after every batch. With
/// `reportsClasses`, the result has a report of the classes of each loss.
///
/// With `ranks`, each rank evaluates a share of the batches, and all ranks get
/// the result over all samples, without class reports. If any rank stops or
/// fails, all do.
StatusOr<EvalResult>
evaluate(Trainee &model, const Dataset &data,
         const std::atomic<int> *stop = nullptr,
         const std::vector<std::string> &metrics = {},
         const std::function<void(int64_t samples)> &progress = nullptr,
         bool reportsClasses = false, Ranks *ranks = nullptr);

/// An evaluation of samples that come in several data sets, one after another.
class PartialEvaluation {
public:
  /// `data` is the first data set. `metrics` are names that checkEvalMetrics
  /// accepted. `model` must outlive the object.
  static StatusOr<PartialEvaluation>
  create(Trainee &model, const Dataset &data,
         const std::vector<std::string> &metrics);
  PartialEvaluation(PartialEvaluation &&) noexcept;
  ~PartialEvaluation();

  /// Evaluates samples [begin, end) of `data`. Only the last call may end with
  /// an incomplete batch, which other samples of `data` fill up.
  Status add(const Dataset &data, int64_t begin, int64_t end);
  /// Adds the sums of all ranks, which must all have added samples and call
  /// this function. Call once, for several ranks, before `finish`.
  Status combine(Ranks &ranks);
  /// Returns the result over all samples. Call once.
  StatusOr<EvalResult> finish();

private:
  struct Impl;
  explicit PartialEvaluation(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Explains why samples were left out.
std::string whyLeftOut(const EvalResult &result);

/// Adds the fields of an "eval" event to `line`: eval_loss, eval_accuracy, ...
void addEvaluation(MetricsLine &line, const EvalResult &result);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_EVALUATOR_H
