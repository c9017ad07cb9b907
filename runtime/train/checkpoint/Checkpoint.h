// Checkpoints: every bit of state, on disk whole or not at all.
//
// A checkpoint is a directory `step-N` with two files. `state.safetensors` has
// the state variables (all roles but "derived", which the artifact computes
// from the rest), in ONNX's layout, so that a checkpoint moves between
// machines. `train.json` says where the run stood, what it was a run of, and
// the XXH3-64 digests of the other file, of each tensor and of itself.
//
// It is written as `step-N.tmp`, flushed, and renamed; only then are older ones
// removed. So a directory without ".tmp" is complete, whenever the process
// died, and which one is newest is told by their names, not by a pointer. The
// best, where a run knows it, has a symbolic link `best` and is not removed.
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

/// Where a run stands.
struct Progress {
  int64_t step = 0;      ///< update attempts made
  int64_t microStep = 0; ///< batches seen
  int64_t samples = 0;
  int64_t skipped = 0;     ///< attempts that updated nothing
  int64_t epoch = 0;       ///< epochs completed
  int64_t stepInEpoch = 0; ///< attempts made in the one after
  int64_t batchInStep = 0; ///< batches accumulated for the attempt after
  double lossInStep = 0;   ///< the sum of their losses
  EvaluationState evaluations;
  /// What the run was set to then and may be set to otherwise when it goes on
  /// (learning rate, schedule, length), as text.
  std::map<std::string, std::string> settings;
};

/// What a run is a run of, key by key: a checkpoint continues only a run with
/// the same values ("model", "data", "seed", ...).
using RunIdentity = std::map<std::string, std::string>;

/// The directory of a run's checkpoints, locked while this lives.
class CheckpointStore {
public:
  /// Creates the directory where needed, takes its lock and removes what
  /// unfinished writes left.
  static StatusOr<CheckpointStore> open(const std::string &directory);

  using Note = std::function<void(const std::string &)>;

  /// Writes `step-N` for `progress.step`, then removes all but the newest
  /// `keep` checkpoints up to it and the best; one that cannot be removed is
  /// noted. On
  /// failure the older ones are untouched, with one exception: where there is
  /// no room for the new one, the oldest goes first if `keep` would have
  /// removed it anyway and a newer one, read whole, stays. Numeric where a
  /// parameter or running statistic is not finite that `allowNonFinite` does
  /// not name: such a checkpoint would replace good ones.
  Status save(Trainee &model, const Progress &progress,
              const RunIdentity &identity, int64_t keep,
              const Note &note = nullptr);

  /// Weights that were not finite before the run, such as a mask of -inf.
  void allowNonFinite(std::set<std::string> names) {
    nonFinite = std::move(names);
  }

  /// Says in the checkpoint of `progress.step` what evaluations have decided
  /// since it was written. It is the old one or the new one whenever the
  /// process dies.
  Status amend(const Progress &progress) const;

  /// Makes the checkpoint of that step the best, and removes what `save` no
  /// longer keeps.
  Status markBest(int64_t step, int64_t newest, int64_t keep) const;
  /// The step of the best; nothing where none is marked.
  StatusOr<std::optional<int64_t>> best() const;

  /// Restores the newest complete checkpoint and says where it stood; nothing
  /// where there is none. A damaged one is noted and the one before taken, but
  /// not in place of one that the system fails to read: IO.
  /// StatusCode::Checkpoint where all are damaged, or where the newest whole
  /// one is of another run.
  StatusOr<std::optional<Progress>> restoreNewest(Trainee &model,
                                                  const RunIdentity &identity,
                                                  const Note &note) const;

  /// The steps of the complete checkpoints, in order.
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

/// Checkpoint unless `path` is a folder with the files of a checkpoint, and IO
/// where that cannot be told. Reads nothing of them: for finding a wrong path
/// before anything else is done.
Status checkCheckpointPath(const std::string &path);

/// The steps of the complete checkpoints in a run's folder, in order; no lock
/// is taken.
StatusOr<std::vector<int64_t>> listCheckpoints(const std::string &directory);

/// The folder of the checkpoint that `path` names: itself, or the newest of a
/// run's folder. Checkpoint where there is none. Takes no lock: the run may be
/// under way.
StatusOr<std::string> findCheckpoint(const std::string &path);
/// The checkpoint of that step beside the one at `path`.
std::string siblingOf(const std::string &path, int64_t step);

/// Checkpoint where what is said of the run at `path` differs from `identity`,
/// of which the recipe may lack members. A damaged checkpoint is not looked at:
/// whoever restores it says so, or takes another.
Status checkCheckpointRun(const std::string &path, RunIdentity identity);

/// All state of a checkpoint. StatusCode::Checkpoint where it is damaged or of
/// another run.
StatusOr<std::vector<Array>> readCheckpoint(const std::string &path,
                                            const TraineeInfo &info,
                                            const RunIdentity &identity);

/// Restores one checkpoint directory. StatusCode::Checkpoint where it is
/// damaged or of another run; the model's state is then as it was.
StatusOr<Progress> restoreCheckpoint(const std::string &path, Trainee &model,
                                     const RunIdentity &identity);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINT_H
