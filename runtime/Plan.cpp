// SPDX-License-Identifier: Apache-2.0
#include "runtime/Plan.h"

#include <algorithm>

namespace mpc::runtime {

template <typename Values>
static auto findNamed(const Values &values, std::string_view name) {
  auto it = std::find_if(values.begin(), values.end(),
                         [&](const auto &value) { return value.name == name; });
  return it == values.end() ? nullptr : &*it;
}

const FunctionValue *Function::findInput(std::string_view name) const {
  return findNamed(inputs, name);
}

const FunctionValue *Function::findOutput(std::string_view name) const {
  return findNamed(outputs, name);
}

const Function *Plan::findFunction(std::string_view name) const {
  auto it = functions.find(name);
  return it == functions.end() ? nullptr : &it->second;
}

const StateVariable *Plan::findState(std::string_view name) const {
  return findNamed(state, name);
}

int64_t Plan::stateBytes() const {
  int64_t bytes = 0;
  for (const StateVariable &variable : state)
    bytes += variable.bytes;
  return bytes;
}

int64_t Plan::activationBytes() const {
  int64_t bytes = 0;
  for (const auto &[name, function] : functions)
    bytes = std::max(bytes, function.arenaBytes);
  return bytes;
}

} // namespace mpc::runtime
