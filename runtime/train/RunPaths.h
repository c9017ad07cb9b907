// Checks the folder of checkpoints that a run writes or resumes from.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RUNPATHS_H
#define MPC_RUNTIME_TRAIN_RUNPATHS_H

#include "runtime/Status.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"

#include <functional>
#include <string>

namespace mpc::runtime::train {

/// Returns a usage error if the run's directory has checkpoints of another run,
/// which this run would remove.
Status checkDirectory(const TrainOptions &options,
                      const CheckpointStore &checkpoints);

/// Notes that the directory has checkpoints later than `step`, at which the run
/// resumes. They stay until the run writes checkpoints of the same steps.
Status
noteLaterCheckpoints(const TrainOptions &options,
                     const CheckpointStore &checkpoints, int64_t step,
                     const std::function<void(const std::string &)> &note);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RUNPATHS_H
