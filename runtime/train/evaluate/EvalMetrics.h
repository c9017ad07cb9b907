// Measures the metrics of `--metric` in an evaluation, besides the loss. Each
// metric is over the whole data set, added up batch by batch in double.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_EVALMETRICS_H
#define MPC_RUNTIME_TRAIN_EVALUATE_EVALMETRICS_H

#include "runtime/Status.h"
#include "runtime/train/trainee/Trainee.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// The prediction of one batch, and the labels or targets of its samples that
/// count. Samples that only fill up the last batch do not count.
struct EvalBatch {
  /// The prediction of the whole batch, f32 or f64. For class labels of shape
  /// (R, d...), scores of shape (R, C, d...), with C classes. For real targets,
  /// values of the targets' shape.
  const Tensor &prediction;
  /// Labels or targets of the samples that count, which come first in the
  /// batch. One of the two is empty: a model has class labels or real targets.
  const std::vector<int64_t> &labels;
  const std::vector<double> &targets;
  std::optional<int64_t> ignoredLabel;

  double at(int64_t index) const {
    return prediction.type == DType::F64
               ? prediction.as<double>()[index]
               : double(prediction.as<float>()[index]);
  }
};

/// A metric of an evaluation.
class EvalMetric {
public:
  explicit EvalMetric(std::string name) : name(std::move(name)) {}
  virtual ~EvalMetric() = default;
  virtual void add(const EvalBatch &batch) = 0;
  /// Returns the metric over all batches added; NaN if nothing was added.
  virtual double value() const = 0;
  /// Returns the sums over all batches, for `merge`.
  virtual std::vector<double> sums() const = 0;
  /// Adds the `sums` of this metric over further batches.
  virtual void merge(const std::vector<double> &sums) = 0;

  const std::string name;
};

/// Lists the metrics for help and messages: "accuracy, f1, ..., or topK, such
/// as top5".
std::string listEvalMetrics();

/// Returns a usage error if there is no metric called `name`.
Status checkEvalMetric(const std::string &name);

/// Returns a usage error, with the reason, if an evaluation of the model cannot
/// measure one of the metrics `names`, for example because the metric does not
/// fit the loss.
Status checkEvalMetrics(const TraineeInfo &info,
                        const std::vector<std::string> &names);

/// True for metrics that are shares of all labels, like the accuracy. Messages
/// print them in percent.
bool isShare(const std::string &metric);

/// True if a greater value of the metric is better: for all but losses and
/// errors.
bool isBetterLarge(const std::string &metric);

/// The logit or probability above which a binary prediction is positive.
double thresholdOf(LossKind kind);

/// Calls `visit` with the class, the prediction and the target of each binary
/// target of `batch`. Each index on axis 1 is a class. Targets are positive
/// from 1/2 on, predictions above `threshold`.
void forEachBinary(const EvalBatch &batch, double threshold,
                   const std::function<void(size_t c, bool isPredicted,
                                            bool isTarget)> &visit);

class ClassReporter;

/// The metrics of a loss, and the output and the label input to read for them.
struct LossMetrics {
  LossMetrics();
  LossMetrics(LossMetrics &&);
  LossMetrics &operator=(LossMetrics &&);
  ~LossMetrics();

  const Port *prediction = nullptr;
  std::string label;  ///< the label input
  std::string output; ///< the output of one of several losses; else empty
  std::optional<int64_t> ignoredLabel;
  std::vector<std::unique_ptr<EvalMetric>> metrics;
  std::unique_ptr<ClassReporter> reporter; ///< null if not requested
};

/// Makes the metrics `names`, which checkEvalMetrics has accepted, and for
/// `reportsClasses` a report of the classes of each loss. Adds the accuracy,
/// named or not, if the first loss has binary targets or class probabilities.
/// Never adds the accuracy of the first loss's class labels, since the artifact
/// computes it.
std::vector<LossMetrics> makeEvalMetrics(const TraineeInfo &info,
                                         const std::vector<std::string> &names,
                                         bool reportsClasses = false);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_EVALMETRICS_H
