// Writes and reads checkpoints: every bit of state, on disk whole or not at
// all.
//
// A checkpoint is a directory `step-N` with two files. `state.safetensors` has
// all state variables except those of role "derived", which the artifact
// computes from the others. It uses ONNX's layouts, so that checkpoints move
// between machines. `train.json` describes the run and its progress. It has the
// XXH3-64 digests of the other file, of each tensor, and of `train.json`.
//
// A checkpoint is written as `step-N.tmp`, flushed, and renamed; only then are
// older ones removed. So a directory without ".tmp" is complete whenever the
// process dies. The names alone tell the newest checkpoint. A symbolic link
// `best` marks the best checkpoint, which is not removed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINT_H
#define MPC_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINT_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/evaluate/Monitor.h"
#include "runtime/train/support/FileSystem.h"
#include "runtime/train/trainee/Trainee.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime::train {

/// The progress of a run.
struct Progress {
  int64_t step = 0;        ///< update attempts made
  int64_t microStep = 0;   ///< batches seen, by all ranks
  int64_t samples = 0;     ///< samples seen, by all ranks
  int64_t skipped = 0;     ///< attempts that updated nothing
  int64_t epoch = 0;       ///< epochs completed
  int64_t stepInEpoch = 0; ///< attempts made since the last completed epoch
  /// The place, in the epoch's order, of the next attempt's first sample, for
  /// any number of ranks.
  int64_t sampleInEpoch = 0;
  int64_t batchInStep = 0; ///< batches accumulated for the next attempt
  /// sum of the losses of these batches, divided by the batches of an attempt
  double lossInStep = 0;
  EvaluationState evaluations;
  /// Settings that may change when the run is resumed, as text: learning rate,
  /// schedule, length and others.
  std::map<std::string, std::string> settings;
  /// Metadata for a model that is made from the checkpoint, by key. Empty for
  /// checkpoints of older versions.
  std::map<std::string, std::string> record;
};

/// The facts that identify a run, by key ("model", "data", "seed", ...). A run
/// can resume only from a checkpoint whose facts are equal.
using RunIdentity = std::map<std::string, std::string>;

/// The directory of a run's checkpoints, locked during the lifetime of the
/// object.
class CheckpointStore {
public:
  /// Creates the directory if needed, locks it, and removes remains of
  /// unfinished writes.
  static StatusOr<CheckpointStore> open(const std::string &directory);

  using Note = std::function<void(const std::string &)>;

  /// Writes `step-N` for `progress.step`. Then removes all but the best and the
  /// newest `keep` checkpoints up to that step; notes a checkpoint that cannot
  /// be removed.
  ///
  /// On failure, older checkpoints stay, with one exception. If the disk is
  /// full, removes the oldest checkpoint first, provided that `keep` would
  /// remove this checkpoint anyway and a newer, fully readable checkpoint
  /// stays.
  ///
  /// Numeric if a parameter or running statistic is not finite, unless
  /// `allowNonFinite` names it: such a checkpoint would replace good ones.
  Status save(Trainee &model, const Progress &progress,
              const RunIdentity &identity, int64_t keep,
              const Note &note = nullptr);

  /// Makes `save` accept weights that were not finite before the run, like a
  /// mask of -inf.
  void allowNonFinite(std::set<std::string> names) {
    nonFinite = std::move(names);
  }

  /// Adds the decisions of an evaluation after `save` to the checkpoint of
  /// `progress.step`. If the process dies meanwhile, the file is the old or the
  /// new one.
  Status amend(const Progress &progress) const;

  /// Marks the checkpoint of `step` as the best. Then removes the checkpoints
  /// up to `newest` that are neither the best nor among the newest `keep`.
  Status markBest(int64_t step, int64_t newest, int64_t keep) const;
  /// Returns the step of the best checkpoint; nullopt if none is marked.
  StatusOr<std::optional<int64_t>> best() const;

  /// Restores the newest undamaged checkpoint and returns its progress; nullopt
  /// if there is no checkpoint. Skips a damaged checkpoint with a note. IO if
  /// the system fails to read a checkpoint, which may be intact. Checkpoint
  /// error if all are damaged, or if the newest undamaged checkpoint is of
  /// another run.
  StatusOr<std::optional<Progress>> restoreNewest(Trainee &model,
                                                  const RunIdentity &identity,
                                                  const Note &note) const;

  /// Returns the steps of the complete checkpoints in ascending order.
  StatusOr<std::vector<int64_t>> list() const;
  std::string pathOf(int64_t step) const;

private:
  CheckpointStore(std::string directory, DirectoryLock lock)
      : directory(std::move(directory)), lock(std::move(lock)) {}
  Status write(Trainee &model, const Progress &progress,
               const RunIdentity &identity);
  Status followDirectory();
  Status remove(int64_t step) const;
  bool makeRoom(int64_t newest, int64_t keep) const;
  StatusOr<std::vector<int64_t>> spareOf(std::vector<int64_t> steps,
                                         int64_t keep) const;
  Status prune(int64_t newest, int64_t keep) const;

  std::string directory;
  DirectoryLock lock;
  std::set<std::string> nonFinite;
};

/// Checks that `path` is a directory with the files of a checkpoint. Checkpoint
/// error if not; IO if the system cannot tell. Finds a wrong path early,
/// without reading files.
Status checkCheckpointPath(const std::string &path);

/// Returns the steps of the complete checkpoints in a run's folder in ascending
/// order. Takes no lock.
StatusOr<std::vector<int64_t>> listCheckpoints(const std::string &directory);

/// Returns the checkpoint folder that `path` means: `path`, or the newest
/// checkpoint in the folder of a run, RUN or RUN/last. Checkpoint if there is
/// none. Takes no lock, since the run may still be going on.
StatusOr<std::string> findCheckpoint(const std::string &path);
/// Returns the path of the checkpoint of `step` beside the checkpoint at
/// `path`.
std::string siblingOf(const std::string &path, int64_t step);

/// Checks, before compiling, that the run of the checkpoint at `path` agrees
/// with `identity`. Checkpoint error if not. Compares only the recipe's members
/// that `identity` has, since compiling adds members. Accepts a damaged
/// checkpoint, which restoring reports or skips.
Status checkCheckpointRun(const std::string &path, RunIdentity identity);

/// Reads all state of a checkpoint. Checkpoint if it is damaged or belongs to
/// another run.
StatusOr<std::vector<Array>> readCheckpoint(const std::string &path,
                                            const TraineeInfo &info,
                                            const RunIdentity &identity);

/// Restores one checkpoint directory. Checkpoint if it is damaged or belongs to
/// another run; the model's state is then unchanged.
StatusOr<Progress> restoreCheckpoint(const std::string &path, Trainee &model,
                                     const RunIdentity &identity);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINT_H
