// Computes the area under the ROC curve of scores that are added one by one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_AREAUNDERCURVE_H
#define MPC_RUNTIME_TRAIN_EVALUATE_AREAUNDERCURVE_H

#include "runtime/train/evaluate/EvalMetrics.h"

#include <cstddef>
#include <vector>

namespace mpc::runtime::train {

/// The probability that a positive sample has a greater score than a negative
/// sample, with equal scores counting half: scikit-learn's roc_auc_score. Keeps
/// every score, 16 bytes each.
class AreaUnderCurve {
public:
  void add(double score, bool isPositive);
  /// The area. nullopt if positive or negative samples are missing; NaN if a
  /// score is NaN.
  std::optional<double> value() const;

  struct Score {
    double score;
    bool isPositive;
  };
  const std::vector<Score> &all() const { return scores; }

private:
  std::vector<Score> scores;
};

/// The metric `auc`: the mean of the areas of all classes. A class is an index
/// of axis 1 of the predictions. Leaves out classes without positive or without
/// negative samples; NaN if no class is left.
class MeanArea : public EvalMetric {
public:
  using EvalMetric::EvalMetric;
  double value() const override;
  /// For each class, the number of its scores, then each score and its target.
  std::vector<double> sums() const override;
  void merge(const std::vector<double> &sums) override;

protected:
  std::vector<AreaUnderCurve> classes;
};

/// `auc` of binary targets. A target is positive from 1/2 on.
class BinaryAreas : public MeanArea {
public:
  using MeanArea::MeanArea;
  void add(const EvalBatch &batch) override;
};

/// `auc` of class labels. For each class, samples of the class are positive and
/// all others negative; the score is the probability of the class.
class ClassAreas : public MeanArea {
public:
  using MeanArea::MeanArea;
  void add(const EvalBatch &batch) override;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_AREAUNDERCURVE_H
