// SPDX-License-Identifier: Apache-2.0
#include "runtime/Plan.h"

#include "runtime/AttentionOperands.h"

#include <algorithm>
#include <cstddef>
#include <utility>

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
static std::vector<size_t> listBuffers(const std::vector<OwnedPart> &parts) {
  std::vector<size_t> list;
  for (const OwnedPart &part : parts)
    list.push_back(part.buffer);
  return list;
}
static std::vector<size_t> operandsOf(const ReduceScatterStep &step) {
  return listBuffers(step.parts);
}
static std::vector<size_t> operandsOf(const AllGatherStep &step) {
  return listBuffers(step.parts);
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

static std::vector<size_t> operandsOf(const AttentionStep &step) {
  std::vector<size_t> list;
  for (AttentionOperand operand : kAttentionOperands)
    append(list, bufferOf(step, operand));
  append(list, step.statistics);
  return list;
}

std::vector<size_t> listBuffers(const Step &step) {
  return std::visit([](const auto &op) { return operandsOf(op); }, step.op);
}

//===----------------------------------------------------------------------===//
// Steps that use the memory of reductions
//===----------------------------------------------------------------------===//

namespace {
/// The addresses in [begin, end).
struct AddressRange {
  const std::byte *begin, *end;

  bool meets(const AddressRange &other) const {
    return begin < other.end && other.begin < end;
  }
};

/// Collects the addresses that a step reads or writes, over all iterations of
/// loops.
class StepAddresses {
public:
  StepAddresses(const Function &function, const std::vector<void *> &buffers)
      : function(function), buffers(buffers) {}

  std::vector<AddressRange> find(const Step &step) {
    found.clear();
    add(step);
    return found;
  }

private:
  void add(const Step &step);

  const Function &function;
  const std::vector<void *> &buffers;
  std::vector<AddressRange> found;
  /// The bytes by which loops around the step move a buffer: at most towards
  /// lower addresses (negative or 0), and towards higher addresses.
  std::map<size_t, std::pair<int64_t, int64_t>> moved;
};
} // namespace

void StepAddresses::add(const Step &step) {
  for (size_t index : listBuffers(step)) {
    const auto *begin = static_cast<const std::byte *>(buffers[index]);
    const auto way = moved.find(index);
    const auto [low, high] =
        way == moved.end() ? std::pair<int64_t, int64_t>() : way->second;
    found.push_back(
        {begin + low, begin + function.buffers[index].bytes + high});
  }
  if (const auto *conditional = std::get_if<IfStep>(&step.op)) {
    for (const Step &inner : conditional->then)
      add(inner);
    for (const Step &inner : conditional->otherwise)
      add(inner);
  }
  if (const auto *loop = std::get_if<ForStep>(&step.op)) {
    const auto outside = moved;
    for (const MovingBuffer &moving : loop->moving) {
      const int64_t way = (loop->count - 1) * moving.bytes;
      (way < 0 ? moved[moving.buffer].first : moved[moving.buffer].second) +=
          way;
    }
    for (const Step &inner : loop->steps)
      add(inner);
    moved = outside;
  }
}

static bool meets(const std::vector<AddressRange> &ranges,
                  const std::vector<AddressRange> &others) {
  return std::any_of(ranges.begin(), ranges.end(), [&](auto &range) {
    return std::any_of(others.begin(), others.end(),
                       [&](auto &other) { return range.meets(other); });
  });
}

bool isExchange(const Step &step) {
  return std::holds_alternative<AllReduceStep>(step.op) ||
         std::holds_alternative<ReduceScatterStep>(step.op) ||
         std::holds_alternative<AllGatherStep>(step.op);
}

std::vector<size_t> findReductionsBefore(const Function &function,
                                         const std::vector<void *> &buffers) {
  StepAddresses addresses(function, buffers);
  std::vector<std::vector<AddressRange>> exchanged;
  std::vector<size_t> before(function.steps.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const std::vector<AddressRange> used = addresses.find(function.steps[i]);
    // Exchanges run in order, without waiting for earlier exchanges.
    if (isExchange(function.steps[i])) {
      exchanged.push_back(used);
      continue;
    }
    // The last exchange on memory of the step.
    for (size_t count = exchanged.size(); count > 0; --count)
      if (meets(used, exchanged[count - 1])) {
        before[i] = count;
        break;
      }
  }
  return before;
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

Status unknownName(const std::string &what, std::string_view name,
                   const std::string &known) {
  return Status(StatusCode::Usage, "no " + what + " '" + std::string(name) +
                                       "'; there is " + known);
}

//===----------------------------------------------------------------------===//
// Shares of ranks
//===----------------------------------------------------------------------===//

StateShares::StateShares(const Plan &plan, int rank, int ranks)
    : plan(plan), rank(rank), ranks(ranks), owners(plan.state.size(), 0) {
  std::vector<int64_t> bytes(plan.state.size(), 0);
  for (const StateVariable &variable : plan.state)
    if (variable.owner)
      bytes[*variable.owner] += variable.bytes;
  for (const auto &[name, function] : plan.functions)
    for (const Step &step : function.steps)
      if (const auto *reduction = std::get_if<ReduceScatterStep>(&step.op))
        for (const OwnedPart &part : reduction->parts)
          bytes[part.owner] += function.buffers[part.buffer].bytes;
  std::vector<size_t> order;
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] > 0)
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  std::vector<int64_t> held(static_cast<size_t>(ranks), 0);
  for (size_t index : order) {
    const auto least = std::min_element(held.begin(), held.end());
    owners[index] = static_cast<int>(least - held.begin());
    *least += bytes[index];
  }
}

bool StateShares::isSharded() const {
  return std::any_of(plan.state.begin(), plan.state.end(),
                     [&](const StateVariable &variable) {
                       return ownerOf(variable).has_value();
                     });
}

int64_t StateShares::bytes() const {
  int64_t bytes = 0;
  for (const StateVariable &variable : plan.state)
    if (holds(variable))
      bytes += variable.bytes;
  return bytes;
}

} // namespace mpc::runtime
