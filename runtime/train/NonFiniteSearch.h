// Finds the first non-finite value after a run has failed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_NONFINITESEARCH_H
#define MPC_RUNTIME_TRAIN_NONFINITESEARCH_H

#include "runtime/train/Attempts.h"

#include <functional>
#include <string>

namespace mpc::runtime::train {

/// A failed run, as the search needs it.
struct FailedRun {
  Progress end;            ///< the progress at the end
  int64_t firstBad = 0;    ///< the first of the failed attempts
  bool wasSkipped = false; ///< true if the last attempt kept the old state
  double medianStepMs = 0;
  int64_t stepsPerEpoch = 1;
  /// Gives the model a state from before `firstBad`; returns its progress.
  std::function<StatusOr<Progress>()> restore;
  /// DivergenceGuard::findBrokenWeights for the model's current state.
  std::function<std::string()> findBrokenWeights;
};

/// Runs the failed attempt again, step by step, and describes where the first
/// non-finite value comes from. A run with unguarded updates has lost the state
/// before the failure: the state is restored and run up to the failed attempt,
/// to the same bits, if that takes at most a minute. If the search fails,
/// returns the reason. Changes the model's state.
std::string explainNonFinite(Attempts &attempts, const FailedRun &failed);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_NONFINITESEARCH_H
