// Whether a run still learns.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DIVERGENCE_H
#define MPC_RUNTIME_TRAIN_DIVERGENCE_H

#include "runtime/Status.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"

#include <set>
#include <string>

namespace mpc::runtime::train {

/// Counts attempts that went wrong, and ends a run that will not recover.
class DivergenceGuard {
public:
  /// Of a run of the model that `info` describes.
  DivergenceGuard(const TrainOptions &options, const TraineeInfo &info);

  /// Notes which weights are not finite before the first step, such as a mask
  /// of infinities that is trained: the run did not make them so.
  Status begin(Trainee &model);

  /// The names of those weights.
  const std::set<std::string> &brokenAtFirst() const { return brokenBefore; }

  /// Counts an attempt; Numeric where it must be the last.
  Status check(const StepReport &report);

  /// What a loss tells of the model's output that its type does not: nll below
  /// 0 is not of log-probabilities. Empty where there is nothing to say, or it
  /// has been said.
  std::string findWarning(const StepReport &report);

  /// Numeric where a run that ends at `progress` is no success: its weights are
  /// not finite; and unless it was `stopped`, the last loss is not finite, or
  /// every update was skipped.
  Status checkEnd(Trainee &model, const Progress &progress, bool stopped);

  /// "parameter 'w' is inf at [1, 2]": the first of the model's weights that
  /// the run made so; empty where there is none, or they cannot be read.
  std::string findBrokenWeights(Trainee &model) const;

  /// Of the last attempt.
  bool isLossFinite() const { return nonfiniteInARow == 0; }
  bool wasSkipped() const { return last.skipped && brokenAt == 0; }
  /// The attempt with which the present row of losses that are not finite
  /// began, or of skipped ones; the last one where the weights are not finite;
  /// 0 where all is well.
  int64_t firstOfRow() const;

private:
  /// Why a loss may not be finite, and what to try.
  std::string advice() const;

  const TrainOptions &options;
  const bool dynamicScale; ///< whether skipping an update lowers the loss scale
  const bool isBCE;
  bool isNLL; ///< the only loss, and nothing has been said of it
  int64_t nonfiniteInARow = 0;
  int64_t skippedInARow = 0;
  int64_t skippedAtOneScale = 0; ///< after the first at that scale
  int64_t brokenAt = 0; ///< attempts after which weights were not finite
  std::set<std::string> brokenBefore; ///< weights that were not, to begin with
  StepReport last;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DIVERGENCE_H
