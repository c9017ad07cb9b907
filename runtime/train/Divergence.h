// Ends a run whose loss, gradients or weights are not finite.
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

/// Counts attempts with a non-finite loss or a skipped update, and ends a run
/// that has no hope of recovery.
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

  /// Returns a warning if the loss shows a mistake of the user: an nll below 0
  /// means that the outputs are no log-probabilities. Empty if there is nothing
  /// to warn of, and after the first warning.
  std::string findWarning(const StepReport &report);

  /// Returns a numeric error if a run that ends at `progress` has failed: its
  /// weights are not finite; or, unless it was `stopped`, the last loss is not
  /// finite or every update was skipped.
  Status checkEnd(Trainee &model, const Progress &progress, bool stopped);

  /// Describes the first weight that the run made non-finite: "parameter 'w' is
  /// inf at [1, 2]". Empty if there is none, or if weights cannot be read.
  std::string findBrokenWeights(Trainee &model) const;

  /// True if the loss of the last attempt was finite (isLossFinite), or if its
  /// update was skipped (wasSkipped).
  bool isLossFinite() const { return nonfiniteInARow == 0; }
  bool wasSkipped() const { return last.skipped && brokenAt == 0; }
  /// Returns the attempt that began the current series of non-finite losses or
  /// skipped updates. The last attempt if only the weights are not finite; 0 if
  /// all is finite.
  int64_t firstOfRow() const;

private:
  /// Explains why the loss may not be finite, and what to try.
  std::string advice() const;

  const TrainOptions &options;
  const bool dynamicScale; ///< true if skipping an update lowers the loss scale
  const bool isBCE;
  bool isNLL; ///< true if nll is the only loss and no warning was given
  int64_t nonfiniteInARow = 0;
  int64_t skippedInARow = 0;
  /// Steps skipped in a row at the present loss scale, without the first.
  int64_t skippedAtOneScale = 0;
  int64_t brokenAt = 0; ///< attempt that left non-finite weights; 0: none
  /// weights that were not finite at the start
  std::set<std::string> brokenBefore;
  StepReport last;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DIVERGENCE_H
