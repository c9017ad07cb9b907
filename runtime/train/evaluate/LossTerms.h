// The losses of an evaluation: reads them from the model, and adds them up.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_LOSSTERMS_H
#define MPC_RUNTIME_TRAIN_EVALUATE_LOSSTERMS_H

#include "runtime/Status.h"
#include "runtime/Tensor.h"
#include "runtime/train/trainee/Trainee.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// One loss over the data set: a sum over samples. At the end, a mean divides
/// the sum by the number of samples or by the sum of their weights.
struct LossTerm {
  const Port *losses = nullptr;
  const Port *weights = nullptr;
  double sum = 0;
  double count = 0; ///< the divisor of the sum
  /// The name and the factor of one of several losses.
  std::string name = "";
  double factor = 1;

  double value(bool isSum) const {
    return count == 0 ? 0 : isSum ? sum : sum / count;
  }
};

/// Reads an output of the eval function as doubles.
StatusOr<Tensor> readOutput(Trainee &model, const Port &port);

/// Finds the outputs with a loss per sample. Finds the outputs with their
/// weights by name: "sample_weight_1" has the weights of "sample_loss_1".
StatusOr<std::vector<LossTerm>> findTerms(const FunctionPorts &ports,
                                          int64_t batch);

/// Reads the losses of the current batch, and adds those of the first `count`
/// samples to `term`.
Status addTerm(Trainee &model, LossTerm &term, int64_t count, int64_t batch,
               const std::vector<int64_t> &labels,
               const std::optional<int64_t> &ignored);

/// Adds the loss of a batch to `term` if the function returns the mean over the
/// batch instead of the loss of each sample.
Status addMean(Trainee &model, const Port &mean, int64_t count, LossTerm &term);

/// The loss of the whole data set: the sum of all losses, each a mean or a sum
/// over its samples. A loss without samples that count adds nothing.
double lossOf(const std::vector<LossTerm> &terms, bool isSum);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_LOSSTERMS_H
