// The scores of all classes for one label.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_SCORES_H
#define MPC_RUNTIME_TRAIN_EVALUATE_SCORES_H

#include "runtime/train/evaluate/EvalMetrics.h"

#include <cmath>

namespace mpc::runtime::train {

/// The scores of all classes for one label. Scores of a batch have the shape
/// (R, C, d...), with C classes; the R * d labels have the shape (R, d...).
class Scores {
public:
  Scores(const EvalBatch &batch, int64_t label) : batch(batch) {
    const Shape &shape = batch.prediction.shape;
    stride = numElements(Shape(shape.begin() + 2, shape.end()));
    count = shape[1];
    first = label / stride * count * stride + label % stride;
  }

  int64_t size() const { return count; }
  double operator[](int64_t c) const { return batch.at(positionOf(c)); }
  /// The position of class `c` in the batch's prediction, and in targets of the
  /// prediction's shape.
  int64_t positionOf(int64_t c) const { return first + c * stride; }

  /// Returns the class with the greatest score, the first of equal ones;
  /// nullopt if a score is NaN.
  std::optional<int64_t> predicted() const {
    int64_t best = 0;
    for (int64_t c = 0; c < count; ++c) {
      if (std::isnan((*this)[c]))
        return std::nullopt;
      if ((*this)[c] > (*this)[best])
        best = c;
    }
    return best;
  }

private:
  const EvalBatch &batch;
  int64_t stride, count, first;
};

/// True if `label` counts in metrics: it is a class, and is not ignored.
inline bool counts(const EvalBatch &batch, int64_t label) {
  return label != batch.ignoredLabel && label >= 0 &&
         label < batch.prediction.shape[1];
}

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_SCORES_H
