// Replaces parameters by their averages.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/AveragedWeights.h"

#include "runtime/BoundedJSON.h"
#include "runtime/train/checkpoint/Weights.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

/// The suffix that turns the name of a parameter into the name of its average.
static constexpr std::string_view kSuffix = kAverageSuffix;

using Values = std::vector<std::pair<std::string, Tensor>>;

/// Reads all averages. The name in a pair is the parameter's, without ".ema".
static StatusOr<Values> readAverages(Trainee &model) {
  Values values;
  for (const Port &port : model.info().state) {
    if (port.role != Role::Average)
      continue;
    if (port.name.size() <= kSuffix.size())
      return Status(StatusCode::InvalidInput,
                    "the average '" + port.name + "' belongs to no parameter");
    StatusOr<Tensor> value = model.state(port.name);
    if (!value.ok())
      return value.status();
    values.emplace_back(port.name.substr(0, port.name.size() - kSuffix.size()),
                        std::move(*value));
  }
  return values;
}

/// Reads the current values of the parameters that have averages.
static StatusOr<Values> readParameters(Trainee &model, const Values &averages) {
  Values values;
  for (const auto &[name, unused] : averages) {
    StatusOr<Tensor> value = model.state(name);
    if (!value.ok())
      return value.status();
    values.emplace_back(name, std::move(*value));
  }
  return values;
}

static Status give(Trainee &model, const Values &values) {
  for (const auto &[name, value] : values)
    if (Status status = model.setState(name, value); !status.ok())
      return status;
  return values.empty() ? Status() : model.derive();
}

Status useAverages(Trainee &model) {
  StatusOr<Values> averages = readAverages(model);
  return averages.ok() ? give(model, *averages) : averages.status();
}

Status withAverages(Trainee &model, const std::function<Status()> &body) {
  StatusOr<Values> averages = readAverages(model);
  if (!averages.ok())
    return averages.status();
  StatusOr<Values> trained = readParameters(model, *averages);
  if (!trained.ok())
    return trained.status();
  if (Status status = give(model, *averages); !status.ok())
    return status;
  Status status = body();
  Status restored = give(model, *trained);
  return status.ok() ? restored : status;
}

StatusOr<EvalResult>
evaluateAverages(Trainee &model,
                 const std::function<StatusOr<EvalResult>()> &evaluate) {
  StatusOr<EvalResult> result = Status();
  Status status = withAverages(model, [&] {
    result = evaluate();
    return result.status();
  });
  return status.ok() ? result : status;
}

StatusOr<std::vector<Array>> readAveragedWeights(Trainee &model) {
  StatusOr<std::vector<Array>> arrays = readStates(model, [](const Port &port) {
    return isModelRole(port.role) || port.role == Role::Average;
  });
  if (!arrays.ok())
    return arrays;
  std::set<std::string> averages;
  for (const Port &port : model.info().state)
    if (port.role == Role::Average)
      averages.insert(port.name);
  takeAverages(*arrays, [&](const std::string &name) {
    return averages.count(name) == 0;
  });
  arrays->erase(std::remove_if(arrays->begin(), arrays->end(),
                               [&](const Array &array) {
                                 return averages.count(array.name) > 0;
                               }),
                arrays->end());
  return arrays;
}

/// Returns the arrays that are state of the model as a file stores it:
/// parameters and statistics, not the state of an optimizer.
static std::vector<Array> selectWeights(std::vector<Array> arrays,
                                        const std::vector<std::string> &names) {
  const std::set<std::string_view> wanted(names.begin(), names.end());
  arrays.erase(std::remove_if(arrays.begin(), arrays.end(),
                              [&](const Array &array) {
                                return wanted.count(array.name) == 0;
                              }),
               arrays.end());
  return arrays;
}

Status loadCheckpointWeights(Trainee &model,
                             const CheckpointContents &checkpoint) {
  const auto hash = checkpoint.identity.find("model");
  if (hash == checkpoint.identity.end() ||
      hash->second != model.info().modelHash)
    return Status(StatusCode::Checkpoint,
                  "it was written for another model file");
  std::vector<std::string> names;
  for (const Port &port : model.info().state)
    if (isModelRole(port.role))
      names.push_back(port.name);
  return loadWeights(model, selectWeights(evaluatedState(checkpoint), names),
                     names);
}

std::vector<std::string>
takeAverages(std::vector<Array> &arrays,
             const std::function<bool(const std::string &)> &isOwn) {
  // Take values from a copy: if there is a "P.ema.ema" too, the order of the
  // arrays must not matter.
  const std::vector<Array> given = arrays;
  std::map<std::string_view, const Array *> byName;
  for (const Array &array : given)
    byName[array.name] = &array;
  std::vector<std::string> taken;
  for (Array &array : arrays) {
    const std::string name = array.name;
    const auto average = byName.find(name + std::string(kSuffix));
    if (average == byName.end() || average->second->shape != array.shape ||
        isOwn(average->second->name))
      continue;
    array = *average->second;
    array.name = name;
    taken.push_back(average->second->name);
  }
  return taken;
}

std::vector<Array> evaluatedState(const CheckpointContents &checkpoint) {
  std::vector<Array> state = checkpoint.arrays;
  const auto recipe = checkpoint.identity.find("recipe");
  // In a run without --ema, a parameter may be called "P.ema" by chance.
  if (recipe == checkpoint.identity.end() ||
      !BoundedDocument(recipe->second).json.contains("ema"))
    return state;
  takeAverages(state, [](const std::string &) { return false; });
  return state;
}

} // namespace mpc::runtime::train
