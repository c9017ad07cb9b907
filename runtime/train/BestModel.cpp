// Keeps and restores the best weights.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/BestModel.h"

#include <algorithm>

namespace mpc::runtime::train {

/// True for state that training changes and the trained model needs:
/// parameters, their averages, and running statistics.
static bool isTrainedState(const Port &state) {
  return state.role == Role::Parameter || state.role == Role::Average ||
         state.role == Role::Statistic;
}

Status BestModel::copy() {
  std::vector<std::pair<std::string, Tensor>> values;
  for (const Port &port : model.info().state) {
    if (!isTrainedState(port))
      continue;
    StatusOr<Tensor> value = model.state(port.name);
    if (!value.ok())
      return value.status();
    values.emplace_back(port.name, std::move(*value));
  }
  copied = std::move(values);
  return Status();
}

/// Reads the weights of a checkpoint into memory: the run that owns the
/// checkpoint may remove it at any time.
Status BestModel::read(const std::string &path, const RunIdentity &identity) {
  StatusOr<std::vector<Array>> arrays =
      readCheckpoint(path, model.info(), identity);
  if (!arrays.ok())
    return arrays.status();
  std::vector<std::pair<std::string, Tensor>> values;
  // Collect all tensors before replacing `copied`, since the checkpoint may
  // lack one.
  for (const Port &port : model.info().state) {
    if (!isTrainedState(port))
      continue;
    const auto found =
        std::find_if(arrays->begin(), arrays->end(), [&](const Array &array) {
          return array.name == port.name;
        });
    if (found == arrays->end())
      return Status(StatusCode::Checkpoint,
                    path + ": lacks the trained parameter '" + port.name + "'");
    StatusOr<Tensor> value = toTensor(*found);
    if (!value.ok())
      return value.status();
    values.emplace_back(port.name, std::move(*value));
  }
  copied = std::move(values);
  return Status();
}

Status BestModel::find(MonitorState &state, int64_t step,
                       const std::string &resumed, const RunIdentity &identity,
                       const Note &note) {
  if (!state.best)
    return Status();
  Status found(StatusCode::Checkpoint, "there is no --checkpoint-dir");
  if (checkpoints)
    found = checkCheckpointPath(checkpoints->pathOf(state.bestStep));
  // If the last run ended after saving the best checkpoint and before marking
  // it, mark it now.
  if (found.ok()) {
    StatusOr<std::optional<int64_t>> marked = checkpoints->best();
    if (!marked.ok())
      return marked.status();
    return *marked == state.bestStep
               ? Status()
               : checkpoints->markBest(state.bestStep, step, kept);
  }
  if (found.getCode() == StatusCode::Checkpoint && !resumed.empty())
    found = read(siblingOf(resumed, state.bestStep), identity);
  // Forget the best weights only if they are certainly gone. An I/O error may
  // be temporary.
  if (found.getCode() != StatusCode::Checkpoint)
    return found;
  note("the best weights so far, those of step " +
       std::to_string(state.bestStep) + ", are gone (" + found.message() +
       "); the search for the best starts again here");
  state = MonitorState();
  adopt(state, monitor);
  return Status();
}

Status BestModel::mark(int64_t step) {
  copied.clear();
  return checkpoints->markBest(step, step, kept);
}

Status BestModel::apply(const MonitorState &state,
                        const RunIdentity &identity) {
  if (copied.empty())
    return restoreCheckpoint(checkpoints->pathOf(state.bestStep), model,
                             identity)
        .status();
  for (const auto &[name, value] : copied)
    if (Status status = model.setState(name, value); !status.ok())
      return status;
  return model.derive();
}

StatusOr<std::optional<BestEvaluation>>
BestModel::restore(const MonitorState &state, const RunIdentity &identity,
                   const std::string &last, const Note &note) {
  if (!state.best) {
    note("no evaluation had a finite " + monitor.metric +
         ", so there are no best weights: the last ones are kept");
    return std::optional<BestEvaluation>();
  }
  Status status = apply(state, identity);
  if (status.ok())
    return std::optional<BestEvaluation>(
        {state.bestStep, monitor.metric, *state.best});
  return Status(status.getCode(),
                "the best weights: " + status.message() +
                    (last.empty() ? "" : "; the last ones are in " + last));
}

} // namespace mpc::runtime::train
