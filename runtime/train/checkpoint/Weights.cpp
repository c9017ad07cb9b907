// Loads weights into a model, and reads them.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoint/Weights.h"

#include "runtime/NonFinite.h"

#include <algorithm>

namespace mpc::runtime::train {

/// Returns "'a', 'b' and 3 more".
static std::string listNames(const std::vector<std::string> &names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  if (names.size() > kShown)
    text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

Status loadWeights(Trainee &model, const std::vector<Array> &arrays,
                   const std::vector<std::string> &required) {
  const auto find = [&](const std::string &name) {
    return std::find_if(arrays.begin(), arrays.end(),
                        [&](const Array &array) { return array.name == name; });
  };
  // Name all missing weights in a single error.
  std::vector<std::string> missing;
  for (const std::string &name : required)
    if (find(name) == arrays.end())
      missing.push_back(name);
  if (!missing.empty())
    return invalid("the weights lack " + listNames(missing));

  // Check all shapes before setting any value.
  std::vector<std::pair<std::string, Tensor>> values;
  for (const Port &port : model.info().state) {
    const auto array = find(port.name);
    if (array == arrays.end() || port.role == Role::Derived)
      continue;
    if (array->shape != port.shape)
      return invalid("weight '" + port.name + "' is " + toString(array->shape) +
                     ", the model wants " + toString(port.shape));
    StatusOr<Tensor> value = toTensor(*array, port.type);
    if (!value.ok())
      return value.status();
    values.emplace_back(port.name, std::move(*value));
  }
  if (values.empty())
    return invalid("no array of the weights has the name of one of the "
                   "model's parameters or running statistics");
  // All values are valid from here on, so the model changes completely or not
  // at all.
  for (const auto &[name, value] : values)
    if (Status status = model.setState(name, value); !status.ok())
      return status;
  // Recompute derived state, such as 16-bit copies of the weights.
  return model.derive();
}

StatusOr<Array> readState(Trainee &model, const Port &port) {
  StatusOr<const std::byte *> inPlace = model.stateInPlace(port.name);
  if (!inPlace.ok())
    return inPlace.status();
  if (*inPlace)
    return Array{port.name,  {},       toElementType(port.type),
                 port.shape, *inPlace, nullptr};
  StatusOr<Tensor> copy = model.state(port.name);
  if (!copy.ok())
    return copy.status();
  return toArray(port.name, *copy);
}

StatusOr<std::vector<Array>> readStates(Trainee &model,
                                        bool (*isWanted)(const Port &port)) {
  std::vector<Array> arrays;
  for (const Port &port : model.info().state) {
    if (!isWanted(port))
      continue;
    StatusOr<Array> array = readState(model, port);
    if (!array.ok())
      return array.status();
    arrays.push_back(std::move(*array));
  }
  return arrays;
}

StatusOr<std::vector<Array>> readWeights(Trainee &model) {
  return readStates(model,
                    [](const Port &port) { return isModelRole(port.role); });
}

/// True for state that training changes and model files store: parameters and
/// running statistics.
static bool isTrained(const Port &port) {
  return port.role == Role::Parameter || port.role == Role::Statistic;
}

std::string describeNonFinite(const Port &port, const std::byte *bytes) {
  if (!isTrained(port))
    return "";
  const auto found = findNonFinite(port.type, bytes, numElements(port.shape));
  if (!found)
    return "";
  const std::string role =
      port.role == Role::Parameter ? "parameter" : "running statistic";
  return role + " '" + port.name + "' is " +
         describeElement(port.type, port.shape, bytes, *found);
}

StatusOr<std::map<std::string, std::string>>
findNonFiniteWeights(Trainee &model) {
  std::map<std::string, std::string> found;
  for (const Port &port : model.info().state) {
    if (!isTrained(port))
      continue;
    StatusOr<Array> value = readState(model, port);
    if (!value.ok())
      return value.status();
    std::string description = describeNonFinite(port, value->data);
    if (!description.empty())
      found.emplace(port.name, std::move(description));
  }
  return found;
}

} // namespace mpc::runtime::train
