// Finding the first value that was not finite after a run has failed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_NONFINITESEARCH_H
#define MPC_RUNTIME_TRAIN_NONFINITESEARCH_H

#include "runtime/train/Attempts.h"

#include <functional>
#include <string>

namespace mpc::runtime::train {

/// What the search has to go by.
struct FailedRun {
  Progress end;         ///< where the run stands
  int64_t firstBad = 0; ///< the attempt that was the first of those that failed
  bool wasSkipped = false; ///< whether the last one was: the state is as before
  double medianStepMs = 0;
  int64_t stepsPerEpoch = 1;
  /// Gives the model a state from before `firstBad`, and says where it stood.
  std::function<StatusOr<Progress>()> restore;
  /// DivergenceGuard::findBrokenWeights of the model as it is.
  std::function<std::string()> findBrokenWeights;
};

/// Runs the attempt that failed once more, step by step, and says in words
/// where the first value that was not finite comes from. A run whose updates
/// are not guarded has lost the state that it failed from: it is restored and
/// run up to that attempt, to the same bits, if that is a matter of a minute.
/// Where nothing can be said, the reason. The model's state is not what it was.
std::string explainNonFinite(Attempts &attempts, const FailedRun &failed);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_NONFINITESEARCH_H
