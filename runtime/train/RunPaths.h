// Checks the folder of checkpoints that a run writes, and resumes from a
// checkpoint.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RUNPATHS_H
#define MPC_RUNTIME_TRAIN_RUNPATHS_H

#include "runtime/Status.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"

#include <functional>
#include <map>
#include <string>

namespace mpc::runtime::train {

/// Returns a usage error if the run's directory has checkpoints of another run,
/// which this run would remove.
Status checkDirectory(const TrainOptions &options,
                      const CheckpointStore &checkpoints);

/// The place in a run at which this process starts.
struct RunStart {
  Progress progress;
  /// True if the run's own folder has a checkpoint of this place.
  bool isSaved = false;
};

/// Resumes as `options.resume` says: gives `model` the state of a checkpoint
/// and returns its progress. Changes nothing if the run starts anew.
/// `checkpoints` is null if the run writes none. `settings` returns those of
/// this run from a progress on; notes changes. Usage if the run's folder has
/// checkpoints of another run, Checkpoint if the checkpoint is damaged or
/// belongs to another run.
StatusOr<RunStart> resumeRun(
    Trainee &model, const TrainOptions &options,
    const CheckpointStore *checkpoints, const RunIdentity &identity,
    const std::function<std::map<std::string, std::string>(const Progress &)>
        &settings,
    const std::function<void(const std::string &)> &note);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RUNPATHS_H
