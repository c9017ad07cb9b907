// Tells if a run still learns.
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

/// Counts failed attempts, and ends a run without hope of recovery.
class DivergenceGuard {
public:
  /// Watches a run of the model that `info` describes.
  DivergenceGuard(const TrainOptions &options, const TraineeInfo &info);

  /// Records the weights that are not finite before the first step, such as a
  /// trained mask of infinities. These weights do not end the run.
  Status begin(Trainee &model);

  /// The names of the weights that `begin` recorded.
  const std::set<std::string> &brokenAtFirst() const { return brokenBefore; }

  /// Counts an attempted update. Returns a numeric error if the run must end.
  Status check(const StepReport &report);

  /// Warns if a loss shows a mistake that types cannot show: nll below 0 means
  /// that the output is no log-probability. Empty if there is nothing to warn
  /// of, or after the first warning.
  std::string findWarning(const StepReport &report);

  /// Returns a numeric error if a run that ends at `progress` has failed: its
  /// weights are not finite; or, unless it was `stopped`, the last loss is not
  /// finite or every update was skipped.
  Status checkEnd(Trainee &model, const Progress &progress, bool stopped);

  /// Returns "parameter 'w' is inf at [1, 2]": the first weight that the run
  /// broke. Empty if there is none, or if weights cannot be read.
  std::string findBrokenWeights(Trainee &model) const;

  /// Describe the last attempt.
  bool isLossFinite() const { return nonfiniteInARow == 0; }
  bool wasSkipped() const { return last.skipped && brokenAt == 0; }
  /// The attempt with which the current row of non-finite losses or skipped
  /// steps began; the last attempt if only the weights are not finite; 0 if all
  /// is well.
  int64_t firstOfRow() const;

private:
  /// Explains why the loss may not be finite, and what to try.
  std::string advice() const;

  const TrainOptions &options;
  const bool dynamicScale; ///< true if skipping an update lowers the loss scale
  const bool isBCE;
  bool isNLL; ///< true if nll is the only loss, until the warning
  int64_t nonfiniteInARow = 0;
  int64_t skippedInARow = 0;
  int64_t skippedAtOneScale = 0; ///< after the first at that scale
  int64_t brokenAt = 0; ///< attempts made when weights were found broken
  std::set<std::string> brokenBefore; ///< weights not finite at the start
  StepReport last;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DIVERGENCE_H
