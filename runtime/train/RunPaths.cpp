// Checkpoints of other runs, and of this one that were later.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunPaths.h"

#include <filesystem>

namespace mpc::runtime::train {

Status checkDirectory(const TrainOptions &options,
                      const CheckpointStore &checkpoints) {
  if (options.resume == "auto")
    return Status();
  const std::filesystem::path resumed(options.resume);
  std::error_code ignored;
  if (!resumed.empty() && std::filesystem::equivalent(
                              resumed / "..", options.checkpointDir, ignored))
    return Status();
  StatusOr<std::vector<int64_t>> steps = checkpoints.list();
  if (!steps.ok())
    return steps.status();
  if (steps->empty())
    return Status();
  return Status(StatusCode::Usage,
                options.checkpointDir +
                    ": has checkpoints of an earlier run; continue it with "
                    "--resume auto or choose another directory");
}

Status
noteLaterCheckpoints(const TrainOptions &options,
                     const CheckpointStore &checkpoints, int64_t step,
                     const std::function<void(const std::string &)> &note) {
  StatusOr<std::vector<int64_t>> steps = checkpoints.list();
  if (!steps.ok())
    return steps.status();
  if (!steps->empty() && steps->back() > step)
    note(checkpoints.pathOf(steps->back()) + " is later than " +
         options.resume +
         "; until this run is past it, --resume auto takes it");
  return Status();
}

} // namespace mpc::runtime::train
