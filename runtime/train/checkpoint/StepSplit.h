// Lets a run continue where another number of ranks divides the samples of a
// step otherwise: 48 samples are 2 ranks of 24, 3 ranks of 16, or one rank that
// accumulates 2 batches of 24.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_CHECKPOINT_STEPSPLIT_H
#define MPC_RUNTIME_TRAIN_CHECKPOINT_STEPSPLIT_H

#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/checkpoint/CheckpointFiles.h"

#include <string_view>

namespace mpc::runtime::train {

/// Facts of a RunIdentity about the samples of a step.
inline constexpr char kBatchSizeFact[] = "batch size"; ///< of each rank
inline constexpr char kInputsFact[] = "inputs";        ///< "x f32 24x8"
inline constexpr char kRanksFact[] = "ranks";
inline constexpr char kStepFact[] = "samples of a step";    ///< of all ranks
inline constexpr char kSampleFact[] = "inputs of a sample"; ///< "x f32 ?x8"

/// True if the runs have other numbers of ranks, and equal samples in each
/// step. False for a checkpoint of a version that did not record this.
bool splitsOtherwise(const RunIdentity &then, const RunIdentity &now);

/// Returns the facts of `now` that must be equal in `then`, the facts of a
/// checkpoint. If `splitsOtherwise`, the facts that follow from the division of
/// a step are those of `then`: batch size, accumulated batches, and the
/// precision decisions, which depend on the batch.
RunIdentity factsToMatch(const RunIdentity &then, RunIdentity now);

/// Adds zeros for the model's sums of gradients to a checkpoint that has none,
/// and removes sums that the model lacks. A step that the checkpoint had begun
/// begins again.
void dropSums(CheckpointContents &contents, const TraineeInfo &info);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_CHECKPOINT_STEPSPLIT_H
