// SPDX-License-Identifier: Apache-2.0
#include "runtime/Plan.h"

#include <algorithm>

namespace mpc::runtime {

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static std::vector<size_t> operandsOf(const LaunchStep &step) {
  return step.args;
}
static std::vector<size_t> operandsOf(const CopyStep &step) {
  return {step.src, step.dst};
}
static std::vector<size_t> operandsOf(const CheckIndicesStep &step) {
  return {step.buffer};
}
static std::vector<size_t> operandsOf(const AllReduceStep &step) {
  return {step.buffer};
}
static std::vector<size_t> operandsOf(const IfStep &step) {
  return {step.predicate};
}
static std::vector<size_t> operandsOf(const ForStep &) { return {}; }

static void append(std::vector<size_t> &list,
                   const std::optional<size_t> &index) {
  if (index)
    list.push_back(*index);
}

static std::vector<size_t> operandsOf(const MatMulStep &step) {
  std::vector<size_t> list = {step.a, step.b};
  append(list, step.c);
  if (step.epilogue)
    list.insert(list.end(), step.epilogue->args.begin(),
                step.epilogue->args.end());
  if (!step.fused)
    return list;
  for (const auto &index :
       {step.fused->bias, step.fused->aux, step.fused->biasGrad})
    append(list, index);
  for (const LaunchStep &launch : step.fused->unfused)
    list.insert(list.end(), launch.args.begin(), launch.args.end());
  return list;
}

static std::vector<size_t> operandsOf(const ConvStep &step) {
  std::vector<size_t> list;
  for (const auto &index : {step.x, step.w, step.y})
    append(list, index);
  if (step.epilogue)
    list.insert(list.end(), step.epilogue->args.begin(),
                step.epilogue->args.end());
  return list;
}

std::vector<size_t> listBuffers(const Step &step) {
  return std::visit([](const auto &op) { return operandsOf(op); }, step.op);
}

//===----------------------------------------------------------------------===//
// Functions and plans
//===----------------------------------------------------------------------===//

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
