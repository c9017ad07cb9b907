// The area under the ROC curve of scores that an evaluation adds one by one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_AREAUNDERCURVE_H
#define MPC_RUNTIME_TRAIN_EVALUATE_AREAUNDERCURVE_H

#include "runtime/train/evaluate/EvalMetrics.h"

#include <cstddef>
#include <vector>

namespace mpc::runtime::train {

/// The probability that a positive sample has a greater score than a negative
/// one, equal scores counting half: scikit-learn's roc_auc_score. Keeps every
/// score, 16 bytes each.
class AreaUnderCurve {
public:
  void add(double score, bool isPositive);
  /// Nothing where one of the two kinds is missing; NaN where a score is.
  std::optional<double> value() const;

private:
  struct Score {
    double score;
    bool isPositive;
  };
  std::vector<Score> scores;
};

/// `auc`: the mean of the areas of the classes, the indices of axis 1 of the
/// predictions, that have samples of both kinds; NaN where none has.
class MeanArea : public EvalMetric {
public:
  using EvalMetric::EvalMetric;
  double value() const override;

protected:
  std::vector<AreaUnderCurve> classes;
};

/// Of binary targets.
class BinaryAreas : public MeanArea {
public:
  using MeanArea::MeanArea;
  void add(const EvalBatch &batch) override;
};

/// Of class labels: of each class against all others, by its probability.
class ClassAreas : public MeanArea {
public:
  using MeanArea::MeanArea;
  void add(const EvalBatch &batch) override;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_AREAUNDERCURVE_H
