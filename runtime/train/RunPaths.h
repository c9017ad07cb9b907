// The folder of checkpoints that a run is to write or go on from.
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

/// Refuses a directory with checkpoints of another run: this run would prune
/// them.
Status checkDirectory(const TrainOptions &options,
                      const CheckpointStore &checkpoints);

/// Notes which checkpoints are later than the resumed one of `step`: they stay
/// until the run writes checkpoints of the same names.
Status
noteLaterCheckpoints(const TrainOptions &options,
                     const CheckpointStore &checkpoints, int64_t step,
                     const std::function<void(const std::string &)> &note);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RUNPATHS_H
