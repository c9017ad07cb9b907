// Defines which facts a run must share with a checkpoint to resume from it:
// model, data, precision, seed and trained parameters. Rate, schedule, length
// and the number of ranks may change.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RUNIDENTITY_H
#define MPC_RUNTIME_TRAIN_RUNIDENTITY_H

#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"

namespace mpc::runtime::train {

/// The data of a run, as a checkpoint records them.
struct RunData {
  /// Identifies the samples. The first 16 characters are a digest.
  std::string fingerprint;
  std::string description; ///< for messages: "train.npz, 1200 samples"
  int64_t batchSize = 0;
  /// The order of the samples, and the use of the last ones, as text.
  std::string order, lastBatch;
  int64_t ranks = 1;
};

RunData describeData(const Dataset &data, const TrainOptions &options);

/// Returns the facts that a checkpoint and a run that resumes from it must
/// share: model, precision, recipe, trained parameters, shapes of a batch,
/// data, their order and the seed. The recipe has the compile flags and a
/// digest of the precision decisions. With the settings, these facts determine
/// every bit of the run. With another number of ranks, either the batch of each
/// rank must be equal, or the samples of a step (checkpoint/StepSplit.h).
RunIdentity identityOf(const TraineeInfo &info, const RunData &data,
                       uint64_t seed);
RunIdentity identityOf(const TraineeInfo &info, const Dataset &data,
                       const TrainOptions &options);

/// The steps of an epoch over a data set.
struct EpochSteps {
  int64_t samples = 0; ///< in the data set
  int64_t perStep = 1; ///< samples that all ranks take in a step
  LastBatch lastBatch = LastBatch::Drop;

  /// The last place in the epoch's order at which a step can begin. Negative if
  /// an epoch has no step.
  int64_t lastBegin() const {
    return samples - (lastBatch == LastBatch::Keep ? 1 : perStep);
  }
  /// Counts the steps from the place `sample` to the end of the epoch.
  int64_t stepsFrom(int64_t sample) const {
    return sample > lastBegin() ? 0 : (lastBegin() - sample) / perStep + 1;
  }
};

/// Returns the steps of an epoch over `data` for a model with `accumulate`
/// batches in a step. InvalidInput, naming the data, if there are not enough
/// samples for a step.
StatusOr<EpochSteps> planEpoch(const Dataset &data, int64_t accumulate,
                               const TrainOptions &options);

/// Checks that a model reduces its gradients if there are several ranks.
Status checkDataParallel(const TraineeInfo &info, const TrainOptions &options);

/// Checks that a run with these steps and batches per step can be at
/// `progress`. Checkpoint if it cannot.
Status checkPosition(const Progress &progress, const EpochSteps &epoch,
                     int64_t batchesPerStep);

/// Returns a warning if shuffling breaks an input that refers to samples by
/// position, like the edges of a graph, and is the same for every batch. Empty
/// if nothing is wrong, as when a batch has all samples.
std::string findMovedPlaces(const TraineeInfo &info, const Dataset &data,
                            const TrainOptions &options);

/// Counts the steps of a whole run by --epochs and --max-steps; kUnlimited if
/// neither limits the run. Steps before `progress` may have had another size.
int64_t countSteps(const TrainOptions &options, const EpochSteps &epoch,
                   const Progress &progress = {});

/// Counts the epochs that a run of `totalSteps` begins, including those up to
/// `progress`; kUnlimited if the number of steps is not known.
int64_t countEpochs(const EpochSteps &epoch, const Progress &progress,
                    int64_t totalSteps);

/// Returns the settings that may change when a run is resumed, as text:
/// learning rate, schedule, length, name of the data, target and others. `data`
/// is a RunData::description.
std::map<std::string, std::string> settingsOf(const TraineeInfo &info,
                                              const TrainOptions &options,
                                              const std::string &data,
                                              int64_t totalSteps);
std::map<std::string, std::string> settingsOf(const TraineeInfo &info,
                                              const TrainOptions &options,
                                              const Dataset &data,
                                              int64_t totalSteps);

/// Returns "learning rate was 0.001, now it is 0.5; ...": the settings in `now`
/// that differ from `then`. Empty if there are none. Settings that an older
/// version did not record do not count.
std::string changedSettings(const std::map<std::string, std::string> &then,
                            const std::map<std::string, std::string> &now);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RUNIDENTITY_H
