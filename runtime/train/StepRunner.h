// Runs one update attempt, a step of the optimizer, with the artifact's
// functions: `step`, or `accumulate` for each batch and then `update`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_STEPRUNNER_H
#define MPC_RUNTIME_TRAIN_STEPRUNNER_H

#include "runtime/Status.h"
#include "runtime/train/data/BatchLoader.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/evaluate/Evaluator.h"
#include "runtime/train/support/RunRecorder.h"
#include "runtime/train/trainee/Trainee.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

/// The results of one attempt.
struct StepOutcome {
  /// The mean over the batches, or the sum if the model's loss is a sum.
  double loss = 0;
  /// The values of several losses, without their factors, reduced like `loss`.
  /// Empty for a single loss, or if another process began the attempt.
  std::vector<double> terms;
  std::optional<double> gradNorm;
  std::optional<double> lossScale;
  bool skipped = false;
  LabelCount counted; ///< labels of the batches that ran in this process
  /// The share of correct labels before the update. nullopt unless the artifact
  /// reports it and all batches of the attempt ran in this process.
  std::optional<double> accuracy;
};

/// True if the artifact takes the learning rate as an input. False if the rate
/// is part of the model.
bool takesLearningRate(const TraineeInfo &info);

class StepRunner {
public:
  /// Returns status Unsupported if the artifact lacks the functions or
  /// reports no loss.
  static StatusOr<StepRunner> create(Trainee &model);

  /// The number of batches in an attempt.
  int64_t batches() const { return batchCount; }
  /// Divides the sum of the batches' losses to the loss of the attempt.
  double lossDivisor() const { return sumsLoss ? 1 : double(batchCount); }
  bool measuresAccuracy() const { return correct != nullptr; }
  /// Returns the names of several losses; empty for a single loss.
  const std::vector<std::string> &lossNames() const { return termNames; }
  bool takesLearningRate() const { return takesRate; }

  /// Runs one batch of an attempt with the samples at `positions`, and returns
  /// the batch's loss. `epoch` seeds random changes of the samples. `next`
  /// returns the batch that follows, which is prepared meanwhile. Call `finish`
  /// after the last of batches().
  StatusOr<double> runBatch(const Dataset &data, const int64_t *positions,
                            int64_t epoch, const BatchLoader::NextBatch &next,
                            double learningRate, uint64_t seed);

  /// Runs the update, if it is a separate function, and returns the results of
  /// the attempt. `loss` is the loss of the attempt's batches.
  StatusOr<StepOutcome> finish(double loss, double learningRate, uint64_t seed);

  /// Makes the next batch set scalar inputs again: the caller may have set them
  /// meanwhile.
  void forgetScalars() { bound.clear(); }

  /// The first non-finite value of an attempt.
  struct FirstNonFinite {
    std::string text;        ///< a description; empty if all values are finite
    bool isReceived = false; ///< true if the value began on another rank
  };

  /// If `first` is not null, functions run step by step from now on, and
  /// `*first` gets the first non-finite value.
  void setTrace(FirstNonFinite *first) { trace = first; }

  /// Reports the times of data and functions to `to`; null for none.
  void setRecorder(RunRecorder *to) {
    recorder = to;
    loader.setRecorder(to);
  }

private:
  explicit StepRunner(Trainee &model) : model(&model) {}
  const std::string &updating() const {
    return updateFunction.empty() ? batchFunction : updateFunction;
  }
  Status run(const std::string &function, const Dataset *data,
             const int64_t *positions);
  Status runRecorded(const std::string &function);
  Status bindScalars(const std::string &function, double learningRate,
                     uint64_t seed);
  /// Values of one function's outputs, in the order of the requested ports;
  /// nullopt for a null port.
  using Scalars = std::vector<std::optional<double>>;
  StatusOr<Scalars> readScalars(const std::string &function,
                                const std::vector<const Port *> &ports);
  Status countLabels(const Dataset &data, const int64_t *positions);

  Trainee *model;
  std::string batchFunction;  ///< "step" or "accumulate"
  std::string updateFunction; ///< "update"; empty with "step"
  int64_t batchCount = 1;
  bool takesRate = false;
  bool sumsLoss = false; ///< true if the model's loss is a sum over samples
  const Port *loss = nullptr;
  /// The outputs that each hold one of several losses, and their names.
  std::vector<const Port *> terms;
  std::vector<std::string> termNames;
  const Port *gradNorm = nullptr;
  const Port *finite = nullptr;
  const Port *lossScale = nullptr;
  FirstNonFinite *trace = nullptr;
  RunRecorder *recorder = nullptr;
  /// The outputs gradNorm, finite and lossScale after the last update.
  Scalars updated = Scalars(3);
  /// The value last sent to each scalar input, by the names of function and
  /// input.
  std::map<std::pair<std::string, std::string>, std::vector<std::byte>> bound;

  const Port *correct = nullptr; ///< null if the accuracy is not measured
  std::optional<int64_t> ignored;
  BatchLoader loader;
  LabelCount counted;           ///< labels of the batches since the last update
  int64_t countedBatches = 0;   ///< number of batches in `counted`
  std::vector<double> termSums; ///< over the batches since the last update
  int64_t summedBatches = 0;    ///< number of batches in `termSums`
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_STEPRUNNER_H
