// Finds the first non-finite value after a run has failed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_NONFINITESEARCH_H
#define MPC_RUNTIME_TRAIN_NONFINITESEARCH_H

#include "runtime/train/Attempts.h"

#include <functional>
#include <string>

namespace mpc::runtime::train {

/// The facts about a failed run that the search needs.
struct FailedRun {
  Progress end;            ///< the progress when the run failed
  int64_t firstBad = 0;    ///< number of the first failed attempt, from 1
  bool wasSkipped = false; ///< true if the last update was skipped
  double medianStepMs = 0;
  Progress lastBegin; ///< the place where the last attempt began
  /// Gives the model a state from before attempt `firstBad`. Returns the
  /// progress at that state.
  std::function<StatusOr<Progress>()> restore;
  /// Describes a weight that is not finite now; empty if there is none. Calls
  /// DivergenceGuard::findBrokenWeights.
  std::function<std::string()> findBrokenWeights;
};

/// Runs the failed attempt again, step by step, and describes the origin of the
/// first non-finite value. If the update was skipped, the model still has the
/// state from before. Otherwise restores an earlier state and repeats all
/// attempts since then, with the same bits, if that takes at most a minute. If
/// the search fails, returns the reason. Changes the model's state.
std::string explainNonFinite(Attempts &attempts, const FailedRun &failed);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_NONFINITESEARCH_H
