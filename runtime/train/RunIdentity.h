// What a checkpoint must agree with to be resumed: model, data, precision,
// seed, trained parameters. Rate, schedule and length may change.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RUNIDENTITY_H
#define MPC_RUNTIME_TRAIN_RUNIDENTITY_H

#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"

namespace mpc::runtime::train {

/// What fixes the bits of a run, given its settings: the model, everything it
/// was compiled with (the recipe has the flags and a digest of the decisions on
/// precision), which parameters are trained, the data and their order.
RunIdentity identityOf(const TraineeInfo &info, const Dataset &data,
                       const TrainOptions &options);

/// Checkpoint where a run of so many steps an epoch, and batches a step, is
/// never where `progress` says.
Status checkPosition(const Progress &progress, int64_t stepsPerEpoch,
                     int64_t batchesPerStep);

/// The steps of an epoch over `data`, of `perStep` samples each. InvalidInput,
/// naming the data, where they are not enough for one.
StatusOr<int64_t> countStepsOfEpoch(const Dataset &data, int64_t perStep,
                                    LastBatch lastBatch);

/// What is wrong with shuffling samples among which an input that is the same
/// for every batch has places, such as the edges of a graph, where a batch is
/// not all of them; empty where nothing is.
std::string findMovedPlaces(const TraineeInfo &info, const Dataset &data,
                            const TrainOptions &options);

/// The steps of a whole run, by --epochs and --max-steps, or kUnlimited.
int64_t countSteps(const TrainOptions &options, int64_t stepsPerEpoch);

/// Learning rate, schedule, length, the data's name and the target, as text.
std::map<std::string, std::string> settingsOf(const TraineeInfo &info,
                                              const TrainOptions &options,
                                              const Dataset &data,
                                              int64_t totalSteps);

/// "learning rate was 0.001, now it is 0.5; ...": those of `now` that `then`
/// has otherwise; empty where none are, or `then` is of a version without.
std::string changedSettings(const std::map<std::string, std::string> &then,
                            const std::map<std::string, std::string> &now);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RUNIDENTITY_H
