// Finds ports and functions of a trainee by role or name.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trainee/Trainee.h"

#include <algorithm>

namespace mpc::runtime::train {

static const Port *findRole(const std::vector<Port> &ports, Role role) {
  const auto found =
      std::find_if(ports.begin(), ports.end(),
                   [&](const Port &port) { return port.role == role; });
  return found == ports.end() ? nullptr : &*found;
}

const Port *FunctionPorts::output(Role role) const {
  return findRole(outputs, role);
}

const Port *FunctionPorts::input(Role role) const {
  return findRole(inputs, role);
}

const Port *FunctionPorts::inputCalled(std::string_view name) const {
  const auto found =
      std::find_if(inputs.begin(), inputs.end(),
                   [&](const Port &port) { return port.name == name; });
  return found == inputs.end() ? nullptr : &*found;
}

std::vector<std::string> lossNames(const TraineeInfo &info) {
  std::vector<std::string> names;
  for (const NamedLoss &loss : info.losses)
    names.push_back(loss.name);
  return names;
}

std::string describeLoss(const TraineeInfo &info) {
  if (info.loss != LossKind::Output)
    return std::string(stringify(info.loss));
  return info.lossOutput.empty() ? "the model's own"
                                 : "output:" + info.lossOutput;
}

Status Trainee::stage(std::string_view, std::string_view) {
  return Status(StatusCode::Unsupported,
                "the model takes no input while it runs");
}

StatusOr<std::vector<Tensor>>
Trainee::outputs(std::string_view function,
                 const std::vector<std::string_view> &names) {
  std::vector<Tensor> values;
  for (std::string_view name : names) {
    StatusOr<Tensor> value = output(function, name);
    if (!value.ok())
      return value.status();
    values.push_back(std::move(*value));
  }
  return values;
}

const FunctionPorts *TraineeInfo::function(std::string_view name) const {
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : &found->second;
}

} // namespace mpc::runtime::train
