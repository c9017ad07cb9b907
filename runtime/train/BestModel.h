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

  /// `checkpoints` may be null. `kept` counts the checkpoints to keep besides
  /// the best.
  BestModel(Trainee &model, const Monitor &monitor,
            const CheckpointStore *checkpoints, int64_t kept)
      : model(model), monitor(monitor), checkpoints(checkpoints), kept(kept) {}

  /// Finds the weights of `state` when a run resumes at `step`: in the run's
  /// own folder, or else beside the checkpoint `resumed`. If the weights are
  /// gone, notes that and forgets the best.
  Status find(MonitorState &state, int64_t step, const std::string &resumed,
              const RunIdentity &identity, const Note &note);

  /// Copies the model's current weights as the best; no checkpoint has them.
  Status copy();

  /// Marks the run's checkpoint of `step`, the newest, as the best.
  Status mark(int64_t step);

  /// Gives the model the weights of `state` and returns which these are.
  /// nullopt, with a note, if there are none. Checkpoint if they cannot be
  /// read; the error then names `last`, the checkpoint of the last weights.
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
