// One update attempt through the artifact's functions: `step`, or `accumulate`
// for each batch and then `update`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_STEPRUNNER_H
#define MPC_RUNTIME_TRAIN_STEPRUNNER_H

#include "runtime/Status.h"
#include "runtime/train/data/BatchLoader.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/evaluate/Evaluator.h"
#include "runtime/train/trainee/Trainee.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

/// What the artifact says of one attempt.
struct StepOutcome {
  double loss = 0; ///< mean over the batches
  std::optional<double> gradNorm;
  std::optional<double> lossScale;
  bool skipped = false;
  /// Of all labels, before the update, where the artifact says it and every
  /// batch of the attempt was run here.
  std::optional<double> accuracy;
};

/// Whether the learning rate of the run is what the model is updated by.
bool takesLearningRate(const TraineeInfo &info);

class StepRunner {
public:
  /// Unsupported where the artifact has not the functions or reports no loss.
  static StatusOr<StepRunner> create(Trainee &model);

  /// Batches of one attempt.
  int64_t batches() const { return batchCount; }
  bool measuresAccuracy() const { return correct != nullptr; }
  bool takesLearningRate() const { return takesRate; }

  /// Runs one batch of an attempt, the samples at `positions` as they are in
  /// `epoch`; its loss. The last of batches() is followed by `finish`. `next`
  /// says which batch comes after it, which is made ready meanwhile.
  StatusOr<double> runBatch(const Dataset &data, const int64_t *positions,
                            int64_t epoch, const BatchLoader::NextBatch &next,
                            double learningRate, uint64_t seed);

  /// Updates, where that is a function of its own, and says how the attempt
  /// went; `loss` is the sum of its batches' losses.
  StatusOr<StepOutcome> finish(double loss, double learningRate, uint64_t seed);

  /// Functions now run step by step, and the first value that is not finite is
  /// described in `where`, once. Null: as usual.
  void setTrace(std::string *where) { trace = where; }

private:
  explicit StepRunner(Trainee &model) : model(&model) {}
  const std::string &updating() const {
    return updateFunction.empty() ? batchFunction : updateFunction;
  }
  Status run(const std::string &function, const Dataset *data,
             const int64_t *positions);
  Status bindScalars(const std::string &function, double learningRate,
                     uint64_t seed);
  /// Outputs of one function, in the order asked for; nothing for null.
  using Scalars = std::vector<std::optional<double>>;
  StatusOr<Scalars> readScalars(const std::string &function,
                                const std::vector<const Port *> &ports);
  Status countLabels(const Dataset &data, const int64_t *positions);

  Trainee *model;
  std::string batchFunction;  ///< "step" or "accumulate"
  std::string updateFunction; ///< "update"; empty with "step"
  int64_t batchCount = 1;
  bool takesRate = false;
  const Port *loss = nullptr;
  const Port *gradNorm = nullptr;
  const Port *finite = nullptr;
  const Port *lossScale = nullptr;
  std::string *trace = nullptr;
  /// What the last function with an update gave beside the loss: gradNorm,
  /// finite and lossScale.
  Scalars updated = Scalars(3);
  /// The value of each scalar input, by function and name, which it keeps.
  std::map<std::pair<std::string, std::string>, std::vector<std::byte>> bound;

  const Port *correct = nullptr; ///< null: the accuracy is not measured
  std::optional<int64_t> ignored;
  BatchLoader loader;
  LabelCount counted;         ///< of the batches since the last update
  int64_t countedBatches = 0; ///< how many those are
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_STEPRUNNER_H
