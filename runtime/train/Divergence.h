// Whether a run still learns.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DIVERGENCE_H
#define MPC_RUNTIME_TRAIN_DIVERGENCE_H

#include "runtime/Status.h"
#include "runtime/train/Trainer.h"

namespace mpc::runtime::train {

/// Counts attempts that went wrong, and ends a run that will not recover.
class DivergenceGuard {
public:
  /// `dynamicScale`: whether skipping an update lowers the loss scale.
  DivergenceGuard(const TrainOptions &options, bool dynamicScale)
      : options(options), dynamicScale(dynamicScale) {}

  /// Counts an attempt; Numeric where it must be the last.
  Status check(const StepReport &report);

  /// Numeric where a run that did all its `steps` attempts is no success: the
  /// last loss is not finite, or every update was skipped.
  Status checkEnd(int64_t steps, int64_t skipped) const;

  /// Of the last attempt.
  bool isLossFinite() const { return nonfiniteInARow == 0; }
  bool wasSkipped() const { return last.skipped; }
  /// The attempt with which the present row of losses that are not finite
  /// began, or of skipped ones; 0 where there is none.
  int64_t firstOfRow() const;

private:
  const TrainOptions &options;
  const bool dynamicScale;
  int64_t nonfiniteInARow = 0;
  int64_t skippedInARow = 0;
  int64_t skippedAtOneScale = 0; ///< after the first at that scale
  StepReport last;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DIVERGENCE_H
