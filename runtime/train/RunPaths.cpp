// Checks the paths of a run before it starts: the checkpoints in its folder, of
// this run or another, and the permission to write every file. Resumes.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunPaths.h"

#include "runtime/Communicator.h"
#include "runtime/train/MetricsLog.h"
#include "runtime/train/RunIdentity.h"
#include "runtime/train/support/FileSystem.h"

#include <filesystem>

namespace mpc::runtime::train {

Status checkDirectory(const TrainOptions &options,
                      const CheckpointStore &checkpoints) {
  if (options.resume == "auto")
    return Status();
  if (!options.resume.empty()) {
    const auto parent = std::filesystem::path(options.resume) / "..";
    StatusOr<bool> isOwn = isSameFile(parent.string(), options.checkpointDir);
    if (!isOwn.ok() || *isOwn)
      return isOwn.status();
  }
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

/// Notes that the directory has checkpoints later than `step`, at which the run
/// resumes. They stay until the run writes checkpoints of the same steps.
static Status
noteLaterCheckpoints(const TrainOptions &options,
                     const CheckpointStore &checkpoints, int64_t step,
                     const std::function<void(const std::string &)> &note) {
  StatusOr<std::vector<int64_t>> steps = checkpoints.list();
  if (!steps.ok())
    return steps.status();
  if (!steps->empty() && steps->back() > step)
    note(checkpoints.pathOf(steps->back()) + " is later than " +
         options.resume + "; --resume auto takes it until this run is past it");
  return Status();
}

StatusOr<RunStart> resumeRun(
    Trainee &model, const TrainOptions &options,
    const CheckpointStore *checkpoints, const RunIdentity &identity,
    const std::function<std::map<std::string, std::string>(const Progress &)>
        &settings,
    const std::function<void(const std::string &)> &note) {
  const bool isAutomatic = options.resume == "auto";
  if (checkpoints)
    if (Status status = checkDirectory(options, *checkpoints); !status.ok())
      return status;
  RunStart start;
  if (options.resume.empty())
    return start;
  if (isAutomatic) {
    StatusOr<std::optional<Progress>> restored =
        checkpoints->restoreNewest(model, identity, note);
    if (!restored.ok())
      return restored.status();
    if (!*restored) {
      note("no checkpoint to resume from in " + options.checkpointDir +
           "; starting anew");
      return start;
    }
    start.progress = std::move(**restored);
  } else {
    // The checkpoint that --resume names may belong to this run or another.
    StatusOr<Progress> restored =
        restoreCheckpoint(options.resume, model, identity);
    if (!restored.ok())
      return restored.status();
    start.progress = std::move(*restored);
  }
  const std::string changes =
      changedSettings(start.progress.settings, settings(start.progress));
  if (!changes.empty())
    note("resumed with other settings: " + changes);
  const int64_t step = start.progress.step;
  if (checkpoints && !isAutomatic)
    if (Status status = noteLaterCheckpoints(options, *checkpoints, step, note);
        !status.ok())
      return status;
  // If the run resumes from a checkpoint in its own directory, that step needs
  // no new checkpoint.
  StatusOr<bool> isOwn =
      isAutomatic ? true
                  : isSameFile(options.resume,
                               checkpoints ? checkpoints->pathOf(step) : "");
  if (!isOwn.ok())
    return isOwn.status();
  start.isSaved = step > 0 && *isOwn;
  return start;
}

Status checkPaths(const TrainOptions &options) {
  // Report flags that contradict each other before missing files.
  if (options.resume == "auto" && options.checkpointDir.empty())
    return Status(StatusCode::Usage,
                  "--resume auto needs --checkpoint-dir to look in");
  // Only the first rank reads and writes files of the run.
  if (options.communicator && !options.communicator->isFirst())
    return Status();
  if (!options.resume.empty() && options.resume != "auto")
    if (Status status = checkCheckpointPath(options.resume); !status.ok())
      return status;
  if (Status status = MetricsLog::check(options); !status.ok())
    return status;
  if (options.checkpointDir.empty())
    return Status();
  // Check this now: a directory that is not writable would otherwise fail at
  // the first checkpoint, an hour later.
  if (Status status = requireWritable(options.checkpointDir); !status.ok())
    return status;
  StatusOr<FileKind> kind = kindOf(options.checkpointDir);
  if (!kind.ok() || *kind == FileKind::None)
    return kind.status();
  // Checkpoints of an earlier run must not mix with this run's.
  StatusOr<CheckpointStore> store =
      CheckpointStore::open(options.checkpointDir);
  return store.ok() ? checkDirectory(options, *store) : store.status();
}

} // namespace mpc::runtime::train
