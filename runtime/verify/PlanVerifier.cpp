// SPDX-License-Identifier: Apache-2.0
#include "runtime/verify/PlanVerifier.h"
#include "runtime/ArtifactFormat.h"

#include <algorithm>
#include <set>

namespace mpc::runtime {
/// Limit on private memory, of which each CPU worker has a copy.
static constexpr int64_t kMaxPrivateBytes = 16 << 20;

//===----------------------------------------------------------------------===//
// State, buffers, inputs and outputs
//===----------------------------------------------------------------------===//

void PlanVerifier::verifyState(const StateVariable &state) {
  where = "state '" + state.name + "'";
  if (!isStateRole(state.role))
    fail("role '" + std::string(stringify(state.role)) +
         "' is not one of state");
  expect(!state.owner || *state.owner < plan.state.size(),
         "its owner is no state variable");
  if (!state.data)
    return;
  const DataRange &data = *state.data;
  if (!expect(data.offset >= 0 && data.offset % format::kDataAlignment == 0,
              "its initial value is not aligned") ||
      !expect(data.bytes == state.bytes,
              "its initial value has another size than its type and shape"))
    return;
  expect(data.offset <= dataBytes && data.bytes <= dataBytes - data.offset,
         "its initial value lies outside the data section");
}

/// Returns the size in bytes of the memory that contains `buffer`; nullopt if
/// the plan has no such memory.
std::optional<int64_t> PlanVerifier::findLimit(const Buffer &buffer) {
  switch (buffer.space) {
  case Space::Arena:
    return function->arenaBytes;
  case Space::Constant:
    return plan.constantBytes;
  case Space::State:
    if (!expect(buffer.index < plan.state.size(), "no such state variable"))
      return std::nullopt;
    return plan.state[buffer.index].bytes;
  case Space::Input:
    // The input's own buffer, which was checked before, spans the whole input.
    if (!expect(buffer.index < function->inputs.size(), "no such input"))
      return std::nullopt;
    return function->buffers[function->inputs[buffer.index].buffer].bytes;
  }
  return std::nullopt;
}

void PlanVerifier::verifyBuffer(const Buffer &buffer) {
  std::optional<int64_t> limit = findLimit(buffer);
  if (!limit)
    return;
  if (!expect(buffer.offset >= 0 && buffer.offset % sizeOf(buffer.type) == 0,
              "its offset is negative or not aligned to its type"))
    return;
  expect(buffer.offset <= *limit && buffer.bytes <= *limit - buffer.offset,
         "it reaches outside its memory");
}

void PlanVerifier::verifyValues(const std::vector<FunctionValue> &values,
                                bool (*mayHave)(Role role)) {
  std::set<std::string_view> names;
  for (const FunctionValue &value : values) {
    if (!names.insert(value.name).second)
      fail("'" + value.name + "' occurs twice");
    if (!mayHave(value.role))
      fail("'" + value.name + "' cannot have the role '" +
           std::string(stringify(value.role)) + "'");
    if (value.buffer >= function->buffers.size())
      fail("'" + value.name + "' names a buffer that does not exist");
  }
}

static bool isWithin(const IndexBox &box, const Shape &shape) {
  if (box.begin.size() != shape.size() || box.end.size() != shape.size())
    return false;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (box.begin[axis] < 0 || box.begin[axis] > box.end[axis] ||
        box.end[axis] > shape[axis])
      return false;
  return true;
}

void PlanVerifier::verifyBoxes(const std::vector<IndexBox> &boxes,
                               const Buffer &buffer) {
  for (const IndexBox &box : boxes)
    expect((buffer.type == DType::I32 || buffer.type == DType::I64) &&
               box.size >= 0 && isWithin(box, buffer.shape),
           "a box of indices does not fit the buffer, or the buffer has no "
           "integers");
}

void PlanVerifier::verifyFunction(const Function &checked) {
  function = &checked;
  std::string prefix = "function '" + checked.name + "'";
  where = prefix + ", inputs";
  expect(checked.arenaBytes >= 0, "the arena's size is negative");
  verifyValues(checked.inputs, isInputRole);
  for (size_t i = 0; i < checked.inputs.size() && failure.ok(); ++i) {
    const Buffer &buffer = checked.buffers[checked.inputs[i].buffer];
    expect(buffer.space == Space::Input && buffer.index == i &&
               buffer.offset == 0,
           "an input's buffer is not that input's memory");
    verifyBoxes(checked.inputs[i].indices, buffer);
    const int64_t axis = checked.inputs[i].batchAxis;
    expect(axis == 0 ||
               (axis >= -1 && axis < static_cast<int64_t>(buffer.shape.size())),
           "a batch axis is not one of its input");
  }
  where = prefix + ", outputs";
  verifyValues(checked.outputs, isOutputRole);
  // Verify buffers before the steps that refer to them.
  for (size_t i = 0; i < checked.buffers.size() && failure.ok(); ++i) {
    where = prefix + ", buffer " + std::to_string(i);
    verifyBuffer(checked.buffers[i]);
  }
  where = prefix + ", outputs";
  for (const FunctionValue &output : checked.outputs) {
    if (!failure.ok())
      return;
    const Buffer &buffer = checked.buffers[output.buffer];
    expect(buffer.space != Space::State || !plan.state[buffer.index].owner,
           "an output is a variable that only one rank holds");
  }
  if (failure.ok())
    verifySteps(checked.steps);
}

Status PlanVerifier::verify() {
  expect(plan.constantBytes >= 0 && plan.constantBytes <= dataBytes,
         "the constants do not fit in the data section");
  std::set<std::string_view> names;
  Checked total = 0;
  for (const StateVariable &state : plan.state) {
    verifyState(state);
    total = total + state.bytes;
    expect(!total.overflowed, "the sizes of all state variables overflow");
    if (!names.insert(state.name).second)
      fail("two state variables have this name");
  }
  for (const auto &[name, kernel] : plan.kernels) {
    where = "kernel '" + name + "'";
    verifyKernel(kernel);
  }
  for (const auto &[name, checked] : plan.functions)
    if (failure.ok())
      verifyFunction(checked);
  return failure;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void PlanVerifier::verifySteps(const std::vector<Step> &steps) {
  if (privateMemory)
    verifyPrivateBuffers(steps);
  for (size_t i = 0; i < steps.size() && failure.ok(); ++i) {
    where = "function '" + function->name + "', step " + std::to_string(i) +
            " ('" + steps[i].name + "')";
    verifyOwner(steps[i]);
    std::visit([&](const auto &step) { verifyStep(step); }, steps[i].op);
  }
}

/// Checks the owners of all sharded variables in the step.
void PlanVerifier::verifyOwner(const Step &step) {
  if (depth == 0)
    owner = step.owner;
  else
    expect(!step.owner, "a step of a list has an owner of its own");
  expect(!step.owner || *step.owner < plan.state.size(),
         "its owner is no state variable");
  for (size_t index : listBuffers(step)) {
    // Skip an index without a buffer, which verifyStep reports.
    if (index >= function->buffers.size())
      continue;
    const Buffer &buffer = function->buffers[index];
    if (buffer.space == Space::State && plan.state[buffer.index].owner)
      expect(plan.state[buffer.index].owner == owner,
             "it uses a variable that only another rank holds");
  }
}

/// Verifies the parts of an exchange between owners and other ranks.
bool PlanVerifier::verifyParts(const std::vector<OwnedPart> &parts) {
  // No data may decide, since all ranks must exchange equal parts in equal
  // order.
  expect(depth == 0 && !owner,
         "it exchanges parts inside a list of steps, or on one rank only");
  expect(!parts.empty(), "it exchanges nothing");
  for (const OwnedPart &part : parts) {
    if (!expect(part.buffer < function->buffers.size() &&
                    part.owner < plan.state.size(),
                "it names a buffer or an owner that does not exist"))
      return false;
    const Space space = function->buffers[part.buffer].space;
    expect(space == Space::Arena || space == Space::State,
           "it writes an input or a constant");
  }
  return failure.ok();
}

void PlanVerifier::verifyStep(const ReduceScatterStep &step) {
  if (!verifyParts(step.parts))
    return;
  const DType type = function->buffers[step.parts.front().buffer].type;
  for (const OwnedPart &part : step.parts)
    expect(function->buffers[part.buffer].type == type,
           "its parts differ in type");
  expect(type != DType::I1, "it reduces booleans");
  expect(step.kind != Reduce::Mean || isFloat(type),
         "it takes the mean of integers");
}

void PlanVerifier::verifyStep(const AllGatherStep &step) {
  verifyParts(step.parts);
}

/// Verifies the steps of a loop or a condition.
void PlanVerifier::verifyNested(const std::vector<Step> &steps) {
  ++depth;
  verifySteps(steps);
  --depth;
}

void PlanVerifier::verifyStep(const CopyStep &step) {
  size_t count = function->buffers.size();
  if (!expect(step.src < count && step.dst < count,
              "it names a buffer that does not exist"))
    return;
  const Buffer &src = function->buffers[step.src];
  const Buffer &dst = function->buffers[step.dst];
  if (step.strided)
    verifyRows(*step.strided, src, dst);
  else
    expect(src.type == dst.type && src.bytes == dst.bytes,
           "source and destination differ in type or size");
  verifyWritten(dst, {&src});
}

void PlanVerifier::verifyStep(const CheckIndicesStep &step) {
  if (expect(step.buffer < function->buffers.size(),
             "it names a buffer that does not exist"))
    verifyBoxes(step.indices, function->buffers[step.buffer]);
}

void PlanVerifier::verifyStep(const AllReduceStep &step) {
  if (!expect(step.buffer < function->buffers.size(),
              "it names a buffer that does not exist"))
    return;
  const Buffer &buffer = function->buffers[step.buffer];
  // No data may decide, since all ranks must reduce equal buffers in equal
  // order.
  expect(depth == 0, "it reduces over ranks inside a loop or a condition");
  expect(buffer.space == Space::Arena || buffer.space == Space::State,
         "it reduces an input or a constant");
  expect(buffer.type != DType::I1, "it reduces booleans");
  expect(step.kind != Reduce::Mean || isFloat(buffer.type),
         "it takes the mean of integers");
  if (expectInRange(step) && step.rowElements > 0)
    expect(buffer.bytes / sizeOf(buffer.type) % step.rowElements == 0,
           "its rows do not fill the buffer");
}

void PlanVerifier::verifyRows(const StridedRows &strided, const Buffer &src,
                              const Buffer &dst) {
  expect(!plan.target.isGPU(), "a GPU copies whole buffers");
  expect(src.type == dst.type, "source and destination differ in type");
  const std::optional<RowTarget> &target = strided.target;
  if (!expect(strided.rows >= 1 && (target || dst.bytes % strided.rows == 0),
              "its rows do not fill the destination"))
    return;
  // Rows must not overlap, neither in the source nor in the destination.
  int64_t row = target ? target->rowBytes : dst.bytes / strided.rows;
  auto verifySide = [&](const Buffer &buffer, int64_t offset, int64_t stride,
                        const std::string &side) {
    if (row < 0 || offset < 0 || stride < row)
      return fail("its rows overlap or begin before the " + side + ": " +
                  std::to_string(row) + " bytes from byte " +
                  std::to_string(offset) + " on, " + std::to_string(stride) +
                  " bytes apart");
    Checked end = Checked(strided.rows - 1) * stride + offset + row;
    if (!(end <= buffer.bytes))
      fail("its rows end behind the " + side + " of " +
           std::to_string(buffer.bytes) + " bytes");
  };
  verifySide(src, strided.offset, strided.stride, "source");
  if (target)
    verifySide(dst, target->offset, target->stride, "destination");
}

void PlanVerifier::verifyStep(const IfStep &step) {
  if (!expect(step.predicate < function->buffers.size(),
              "the predicate names a buffer that does not exist"))
    return;
  const Buffer &predicate = function->buffers[step.predicate];
  expect(predicate.type == DType::I1 && numElements(predicate.shape) == 1,
         "the predicate is not a single i1");
  expect(!plan.target.isGPU(), "a GPU runs no conditional steps");
  verifyNested(step.then);
  verifyNested(step.otherwise);
}

/// Checks the memory of moving buffers in all iterations of the loop and of
/// outer loops.
bool PlanVerifier::verifyMoving(const ForStep &step) {
  std::set<size_t> seen;
  for (const MovingBuffer &moving : step.moving) {
    if (!expect(moving.buffer < function->buffers.size(),
                "it moves a buffer that does not exist") ||
        !expect(seen.insert(moving.buffer).second,
                "it moves a buffer twice at once"))
      return false;
    // `low` and `high` start as the extreme offsets that outer loops give the
    // buffer.
    const Buffer &buffer = function->buffers[moving.buffer];
    auto [entry, isNew] =
        reach.try_emplace(moving.buffer, buffer.offset, buffer.offset);
    auto &[low, high] = entry->second;
    // The loop lowers `low` if the buffer moves backwards, and else raises
    // `high`.
    Checked way = Checked(step.count - 1) * moving.bytes;
    Checked moved = way + (moving.bytes < 0 ? low : high);
    std::optional<int64_t> limit = findLimit(buffer);
    if (!expect(!moved.overflowed && moving.bytes % sizeOf(buffer.type) == 0,
                "it moves a buffer too far, or not by whole elements") ||
        !limit)
      return false;
    (moving.bytes < 0 ? low : high) = moved.value;
    if (!expect(low >= 0 && high <= *limit - buffer.bytes,
                "it moves a buffer out of its memory"))
      return false;
  }
  return true;
}

/// Checks a loop's private memory against the arena.
bool PlanVerifier::verifyPrivate(const ForStep &step) {
  if (!step.privateMemory)
    return true;
  const PrivateMemory &memory = *step.privateMemory;
  return expect(!plan.target.isGPU(),
                "a GPU cannot run iterations in parallel") &&
         expect(!privateMemory,
                "a loop with private memory is inside another such loop") &&
         expect(memory.offset >= 0 &&
                    memory.offset % format::kDataAlignment == 0 &&
                    memory.bytes >= 0 && memory.bytes <= kMaxPrivateBytes &&
                    memory.offset <= function->arenaBytes &&
                    memory.bytes <= function->arenaBytes - memory.offset,
                "its private memory does not lie within the arena");
}

/// Checks that each buffer lies entirely inside or entirely outside the private
/// memory, also where inner loops move it. Each worker has a copy of the
/// private memory at another address, so a buffer cannot be in both.
void PlanVerifier::verifyPrivateBuffers(const std::vector<Step> &steps) {
  const int64_t begin = privateMemory->offset;
  const int64_t end = begin + privateMemory->bytes;
  for (const Step &step : steps)
    for (size_t index : listBuffers(step)) {
      // Skip an index without a buffer, which verifyStep reports.
      if (index >= function->buffers.size())
        continue;
      const Buffer &buffer = function->buffers[index];
      if (buffer.space != Space::Arena)
        continue;
      // The lowest and the highest offset of the buffer over all iterations.
      auto moved = reach.find(index);
      int64_t low = moved == reach.end() ? buffer.offset : moved->second.first;
      int64_t high =
          moved == reach.end() ? buffer.offset : moved->second.second;
      expect(contains(*privateMemory, buffer)
                 ? contains(*privateMemory, low, high + buffer.bytes)
                 : high + buffer.bytes <= begin || low >= end,
             "a buffer is half in private memory");
    }
}

void PlanVerifier::verifyStep(const ForStep &step) {
  if (!expectInRange(step) || !verifyPrivate(step))
    return;
  const auto outside = reach;
  const auto privateOutside = privateMemory;
  if (step.privateMemory)
    privateMemory = step.privateMemory;
  if (verifyMoving(step)) {
    for (const MovingBuffer &moving : step.moving)
      expect(!step.privateMemory || !contains(*step.privateMemory,
                                              function->buffers[moving.buffer]),
             "it moves a buffer of its private memory");
    verifyNested(step.steps);
  }
  reach = outside;
  privateMemory = privateOutside;
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

Status verifyPlan(const Plan &plan, int64_t dataBytes) {
  return PlanVerifier(plan, dataBytes).verify();
}

} // namespace mpc::runtime
