// The weights of the evaluation that was the best so far: those of a checkpoint
// where the run has a folder for them, else a copy in memory.
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

  /// `checkpoints`, of which `kept` are kept beside the best, may be null.
  BestModel(Trainee &model, const Monitor &monitor,
            const CheckpointStore *checkpoints, int64_t kept)
      : model(model), monitor(monitor), checkpoints(checkpoints), kept(kept) {}

  /// Finds the weights that `state` tells of when a run goes on from `step`: in
  /// its own folder, or else beside the checkpoint `resumed`. Where they are
  /// gone, that is noted and the best forgotten.
  Status find(MonitorState &state, int64_t step, const std::string &resumed,
              const RunIdentity &identity, const Note &note);

  /// The model's present weights are the best, and in no checkpoint.
  Status copy();

  /// They are in the run's own checkpoint of that step, the newest.
  Status mark(int64_t step);

  /// Gives the model the weights that `state` tells of, and says which they
  /// are; where there are none, that is noted. Checkpoint where they cannot be
  /// read; the last ones are in the checkpoint `last`, if anywhere.
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
