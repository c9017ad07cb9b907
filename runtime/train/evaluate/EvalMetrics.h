// What `--metric` measures of an evaluation, beside its loss: each of the whole
// set, added up batch by batch in double.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_EVALMETRICS_H
#define MPC_RUNTIME_TRAIN_EVALUATE_EVALMETRICS_H

#include "runtime/Status.h"
#include "runtime/train/trainee/Trainee.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// The evaluated part of one batch.
struct EvalBatch {
  /// Of the whole batch: scores (R, C, d...) of labels (R, d...), or values of
  /// the targets' shape, scores of probabilities among them; f32 or f64.
  const Tensor &prediction;
  /// Of the samples that count, in order. One of the two is empty: a model has
  /// class labels or real targets.
  const std::vector<int64_t> &labels;
  const std::vector<double> &targets;
  std::optional<int64_t> ignoredLabel;

  double at(int64_t index) const {
    return prediction.type == DType::F64
               ? prediction.as<double>()[index]
               : double(prediction.as<float>()[index]);
  }
};

/// One metric of one evaluation.
class EvalMetric {
public:
  explicit EvalMetric(std::string name) : name(std::move(name)) {}
  virtual ~EvalMetric() = default;
  virtual void add(const EvalBatch &batch) = 0;
  /// NaN where nothing was added.
  virtual double value() const = 0;

  const std::string name;
};

/// "accuracy, topK such as top5, ...", as help and messages list them.
std::string listEvalMetrics();

/// Usage where `name` is none of them.
Status checkEvalMetric(const std::string &name);

/// Usage, with the reason, where the evaluation of a model with that loss has
/// no such metric.
Status checkEvalMetrics(const TraineeInfo &info,
                        const std::vector<std::string> &names);

/// The metrics called `names`, which checkEvalMetrics let pass. Losses of
/// binary targets and of probabilities have their accuracy even where it is not
/// among them; that of class labels the artifact computes, and is never here.
std::vector<std::unique_ptr<EvalMetric>>
makeEvalMetrics(const TraineeInfo &info, const std::vector<std::string> &names);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_EVALMETRICS_H
