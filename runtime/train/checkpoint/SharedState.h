// Keeps the state of the ranks of a distributed run equal.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_CHECKPOINT_SHAREDSTATE_H
#define MPC_RUNTIME_TRAIN_CHECKPOINT_SHAREDSTATE_H

#include "runtime/Status.h"
#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/support/Ranks.h"
#include "runtime/train/trainee/Trainee.h"

#include <map>
#include <string>

namespace mpc::runtime::train {

/// Checks that all ranks have equal facts about their run, by name. Usage on
/// the first rank with both values of the first different fact, Rank on all
/// others.
Status checkSameFacts(const std::map<std::string, std::string> &facts,
                      Ranks &ranks);

/// Goes back to the beginning of the step of `progress`: several ranks cannot
/// divide the gradients of the first batches among them. Call on the first
/// rank, before `shareState`.
Status beginStepAgain(Trainee &model, Progress &progress);

/// Gives all ranks the state of the first rank.
Status shareState(Trainee &model, Ranks &ranks);

/// Gives all ranks the counts and evaluations of the first rank's progress.
Status shareProgress(Progress &progress, Ranks &ranks);

/// Replaces running statistics by the mean over the ranks if they differ: each
/// rank normalizes by the batches of that rank.
Status averageStatistics(Trainee &model, Ranks &ranks);

/// Averages statistics, and checks that state in checkpoints has equal bits on
/// all ranks. A Rank error on each rank names the first different variable.
Status checkSameState(Trainee &model, Ranks &ranks);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_CHECKPOINT_SHAREDSTATE_H
