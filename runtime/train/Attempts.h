// Runs update attempts one after another: chooses the samples and the learning
// rate of each attempt, and counts progress. An attempt is one step of the
// optimizer over one batch or several. An attempt whose gradients are not
// finite is skipped: it changes no weights.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_ATTEMPTS_H
#define MPC_RUNTIME_TRAIN_ATTEMPTS_H

#include "runtime/train/StepRunner.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"

namespace mpc::runtime::train {

class Attempts {
public:
  Attempts(StepRunner runner, const Dataset &data, const TrainOptions &options,
           int64_t stepsPerEpoch, int64_t totalSteps)
      : runner(std::move(runner)), data(data), options(options),
        stepsPerEpoch(stepsPerEpoch), totalSteps(totalSteps) {}

  /// Runs the attempt that follows `progress`, and adds it to `progress`.
  /// nullopt if `stop` becomes nonzero between two batches of the attempt;
  /// `progress` then counts the finished batches.
  StatusOr<std::optional<StepReport>> run(Progress &progress,
                                          const std::atomic<int> *stop);

  /// Runs an attempt like `run`, but step by step. Returns a description of the
  /// origin of the first non-finite value; empty if all values are finite.
  /// Unsupported on some devices.
  StatusOr<std::string> trace(Progress &progress);

private:
  void count(Progress &progress, bool skipped) const;
  const std::vector<int64_t> &orderOf(int64_t epoch);
  std::vector<int64_t> positionsOf(const Progress &progress);
  BatchSamples samplesAfter(Progress progress);

  StepRunner runner;
  const Dataset &data;
  const TrainOptions &options;
  const int64_t stepsPerEpoch, totalSteps;
  /// The order of the samples in epoch `orderEpoch`, kept until the epoch ends.
  std::vector<int64_t> order;
  int64_t orderEpoch = -1;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_ATTEMPTS_H
