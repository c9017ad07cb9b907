// Keeps the weights of the best evaluation so far: in a checkpoint if the run
// has a folder for them, else in memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_BESTMODEL_H
#define MPC_RUNTIME_TRAIN_BESTMODEL_H

#include "runtime/Status.h"
#include "runtime/Tensor.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/evaluate/Monitor.h"
#include "runtime/train/trainee/Trainee.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

class BestModel {
public:
  using Note = std::function<void(const std::string &)>;

  /// `checkpoints` is the run's directory of checkpoints; null if there is
  /// none. `kept` is the number of newest checkpoints to keep besides the best.
  BestModel(Trainee &model, const Monitor &monitor,
            const CheckpointStore *checkpoints, int64_t kept)
      : model(model), monitor(monitor), checkpoints(checkpoints), kept(kept) {}

  /// Call when a run resumes at `step`. Finds the best weights so far, from
  /// step `state.bestStep`: in the run's own directory, or else in the
  /// directory of the checkpoint `resumed`. If the weights are gone, notes that
  /// and resets `state`.
  Status find(MonitorState &state, int64_t step, const std::string &resumed,
              const RunIdentity &identity, const Note &note);

  /// Copies the model's current weights into memory as the best weights, if no
  /// checkpoint has them.
  Status copy();

  /// Marks the run's checkpoint of `step`, the newest checkpoint, as the best.
  Status mark(int64_t step);

  /// Gives the model the best weights, and returns their evaluation. nullopt,
  /// with a note, if no evaluation had a finite value. Checkpoint if the
  /// weights cannot be read; the error names `last`, the checkpoint of the last
  /// weights.
  StatusOr<std::optional<BestEvaluation>> restore(const MonitorState &state,
                                                  const RunIdentity &identity,
                                                  const std::string &last,
                                                  const Note &note);

private:
  Status apply(const MonitorState &state, const RunIdentity &identity);
  Status read(const std::string &path, const RunIdentity &identity);

  Trainee &model;
  const Monitor monitor;
  const CheckpointStore *checkpoints;
  const int64_t kept;
  std::vector<std::pair<std::string, Tensor>> copied;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_BESTMODEL_H
