// Evaluates a model on samples that a calling program supplies part by part.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_STREAMEDEVALUATION_H
#define MPC_RUNTIME_TRAIN_STREAMEDEVALUATION_H

#include "runtime/Status.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/data/InputBytes.h"
#include "runtime/train/evaluate/Evaluator.h"
#include "runtime/train/support/Ranks.h"
#include "runtime/train/trainee/Trainee.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

/// Collects samples to whole batches and evaluates them. The result is that of
/// `evaluate` on all samples at once.
///
/// Over several ranks, all ranks call `create` and `finish`, and each adds
/// samples of its own. All get the result over the samples of all. A failure on
/// one rank is a Rank error on the others.
class StreamedEvaluation {
public:
  /// Unsupported if the model has no `eval` function, Usage if a metric does
  /// not fit the model. Averages running statistics over the ranks. `model` and
  /// `communicator`, which is null for a single rank, must outlive the object.
  static StatusOr<StreamedEvaluation>
  create(Trainee &model, std::vector<std::string> metrics, bool allowsNaN,
         Communicator *communicator = nullptr);

  /// Adds samples: any number of them, the same for each input.
  Status add(const std::vector<InputBytes> &given);

  /// Evaluates the samples that fill no batch, and returns the result. Usage if
  /// there are no samples, or if called twice.
  StatusOr<EvalResult> finish();

private:
  StreamedEvaluation(Trainee &model, std::vector<std::string> metrics,
                     Communicator *communicator)
      : model(&model), metrics(std::move(metrics)), ranks(communicator) {}
  Status prepare(bool allowsNaN);
  Status addArrays(const std::vector<Array> &arrays);
  Status end();
  Status run(const Dataset &data, int64_t begin, int64_t end);
  const Port *portOf(const Array &array) const;

  Trainee *model;
  std::vector<std::string> metrics;
  Ranks ranks;
  DatasetOptions options;
  std::optional<PartialEvaluation> evaluation;
  /// Copies of the samples that are not evaluated yet, `restSize` samples. An
  /// input may have several arrays, one after the other.
  std::vector<Array> rest;
  int64_t restSize = 0;
  /// The first whole batch, which fills up the last one; empty if there is
  /// none.
  std::vector<Array> filler;
  /// Inputs that are the same for every batch, as last given.
  std::vector<Array> constants;
  /// The failure that made the sums useless, or the reason why the evaluation
  /// takes no more samples.
  Status closed;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_STREAMEDEVALUATION_H
