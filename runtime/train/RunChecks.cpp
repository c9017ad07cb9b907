// Checks that a run can begin, before the model is compiled.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Communicator.h"
#include "runtime/train/EvaluationRules.h"
#include "runtime/train/RunIdentity.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/evaluate/EvalMetrics.h"

namespace mpc::runtime::train {

/// Finds the checkpoint that the run resumes from; empty if there is none, or
/// if another rank reads the checkpoint.
static StatusOr<std::string> findResumed(const TrainOptions &options) {
  if (options.communicator && !options.communicator->isFirst())
    return std::string();
  if (options.resume != "auto")
    return options.resume;
  // A folder that does not exist yet, or cannot be listed, counts as empty.
  StatusOr<std::vector<int64_t>> steps = listCheckpoints(options.checkpointDir);
  if (!steps.ok() || steps->empty())
    return std::string();
  return findCheckpoint(options.checkpointDir);
}

Status checkRun(const TraineeInfo &info, const Dataset &data,
                const Dataset *evalData, const TrainOptions &options) {
  if (Status status = checkEvalMetrics(info, options.evalMetrics); !status.ok())
    return status;
  if (Status status = EvaluationRules(options, nullptr)
                          .check(info, /*evaluates=*/evalData != nullptr);
      !status.ok())
    return status;
  StatusOr<EpochSteps> epoch = planEpoch(data, info.accumulate, options);
  if (!epoch.ok())
    return epoch.status();
  return checkResumed(info, data, options);
}

Status checkResumed(const TraineeInfo &info, const Dataset &data,
                    const TrainOptions &options) {
  StatusOr<std::string> resumed = findResumed(options);
  if (!resumed.ok())
    return resumed.status();
  return resumed->empty()
             ? Status()
             : checkCheckpointRun(*resumed, identityOf(info, data, options));
}

} // namespace mpc::runtime::train
