// Update attempts one after another: which samples each has, with which
// learning rate, and where the run stands afterwards.
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

  /// Runs the attempt after `progress`, which then includes it. Where `stop`
  /// is raised between two of its batches there is no report, and `progress`
  /// says how many it has.
  StatusOr<std::optional<StepReport>> run(Progress &progress,
                                          const std::atomic<int> *stop);

  /// The same, and tells where the first value in it comes from that is not
  /// finite; empty where all are. Unsupported on some devices.
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
  /// The samples of one epoch, which is asked for step after step.
  std::vector<int64_t> order;
  int64_t orderEpoch = -1;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_ATTEMPTS_H
