// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/PreparedSteps.h"
#include "runtime/cpu/CPUDevice.h"

#include <cassert>
#include <map>

namespace mpc::runtime {
namespace {

/// The addresses stored in prepared steps: the index of the buffer, and a
/// pointer to the stored address.
using AddressList = std::vector<std::pair<size_t, void **>>;

/// Converts the steps of a function to prepared steps.
class StepPreparer {
public:
  StepPreparer(CPUDevice &device, const Artifact &artifact,
               const Function &function, const std::vector<void *> &buffers)
      : device(device), artifact(artifact), function(function),
        buffers(buffers), workers(device.workers().size()) {}

  Status prepare(const std::vector<Step> &steps,
                 std::vector<PreparedStep> &prepared);

private:
  Status prepareStep(const LaunchStep &step, PreparedStep &prepared);
  Status prepareStep(const CopyStep &step, PreparedStep &prepared);
  Status prepareStep(const CheckIndicesStep &step, PreparedStep &prepared);
  Status prepareStep(const AllReduceStep &step, PreparedStep &prepared);
  Status prepareStep(const ReduceScatterStep &step, PreparedStep &prepared);
  Status prepareStep(const AllGatherStep &step, PreparedStep &prepared);
  Status prepareStep(const IfStep &step, PreparedStep &prepared);
  Status prepareStep(const ForStep &step, PreparedStep &prepared);
  Status prepareBody(const ForStep &step, PreparedBody &body);
  Status prepareStep(const MatMulStep &step, PreparedStep &prepared);
  Status prepareStep(const ConvStep &step, PreparedStep &prepared);
  Status prepareStep(const AttentionStep &step, PreparedStep &prepared);

  std::vector<void *> addresses(const std::vector<size_t> &indices) const;
  std::vector<RankPart> partsOf(const std::vector<OwnedPart> &parts) const;
  Operand operand(const std::optional<size_t> &index) const;
  Status resolve(const std::optional<Epilogue> &epilogue, EpilogueCall &call);
  Status keep(StatusOr<std::unique_ptr<Contraction>> contraction,
              PreparedStep &prepared);

  CPUDevice &device;
  const Artifact &artifact;
  const Function &function;
  /// Addresses of the function's buffers, for the worker whose steps are being
  /// prepared. In a parallel loop, each worker has private buffers.
  std::vector<void *> buffers;
  /// True if a worker may run the prepared steps alone.
  bool runsAlone = false;
  /// Number of workers that share the slices of the prepared steps.
  int workers;
};

} // namespace

Status StepPreparer::prepare(const std::vector<Step> &steps,
                             std::vector<PreparedStep> &prepared) {
  for (const Step &step : steps) {
    PreparedStep result;
    result.name = step.name;
    if (step.owner && !device.shares().owns(*step.owner)) {
      result.op = PreparedSkip();
      prepared.push_back(std::move(result));
      continue;
    }
    Status status = std::visit(
        [&](const auto &op) { return prepareStep(op, result); }, step.op);
    if (!status.ok())
      return Status(status.getCode(), "'" + step.name + "' in function '" +
                                          function.name +
                                          "': " + status.message());
    prepared.push_back(std::move(result));
  }
  return Status();
}

std::vector<void *>
StepPreparer::addresses(const std::vector<size_t> &indices) const {
  std::vector<void *> result;
  for (size_t index : indices) {
    assert(index < buffers.size() && "a buffer of the function");
    result.push_back(buffers[index]);
  }
  return result;
}

Operand StepPreparer::operand(const std::optional<size_t> &index) const {
  if (!index)
    return {};
  return {function.buffers[*index].type, buffers[*index]};
}

Status StepPreparer::resolve(const std::optional<Epilogue> &epilogue,
                             EpilogueCall &call) {
  if (!epilogue)
    return Status();
  if (epilogue->args.size() >= EpilogueCall::kMaxArgs)
    return Status(StatusCode::Unsupported,
                  "an epilogue has " + std::to_string(epilogue->args.size()) +
                      " arguments, the runtime passes fewer than " +
                      std::to_string(EpilogueCall::kMaxArgs));
  StatusOr<void *> kernel = artifact.kernel(epilogue->kernel);
  if (!kernel.ok())
    return kernel.status();
  call.function = reinterpret_cast<mpc_epilogue_fn>(*kernel);
  call.args = addresses(epilogue->args);
  return Status();
}

Status StepPreparer::keep(StatusOr<std::unique_ptr<Contraction>> contraction,
                          PreparedStep &prepared) {
  if (!contraction.ok())
    return contraction.status();
  const size_t shared = (*contraction)->sharedBytes();
  if (Status status =
          device.reserveScratch(shared, (*contraction)->scratchBytes(),
                                /*forEachAlone=*/runsAlone ? shared : 0);
      !status.ok())
    return status;
  prepared.op = std::move(*contraction);
  return Status();
}

Status StepPreparer::prepareStep(const LaunchStep &step,
                                 PreparedStep &prepared) {
  StatusOr<void *> kernel = artifact.kernel(step.kernel);
  if (!kernel.ok())
    return kernel.status();
  if (Status status =
          device.reserveScratch(0, static_cast<size_t>(step.scratchBytes));
      !status.ok())
    return status;
  prepared.op = PreparedLaunch{reinterpret_cast<mpc_kernel_fn>(*kernel),
                               addresses(step.args), step.extent, step.grain};
  return Status();
}

Status StepPreparer::prepareStep(const CopyStep &step, PreparedStep &prepared) {
  const StridedRows rows = step.strided.value_or(StridedRows());
  const int64_t dense = function.buffers[step.dst].bytes / rows.rows;
  const RowTarget target = rows.target.value_or(RowTarget{dense, 0, dense});
  prepared.op =
      PreparedCopy{static_cast<std::byte *>(buffers[step.src]) + rows.offset,
                   static_cast<std::byte *>(buffers[step.dst]) + target.offset,
                   rows.rows * target.rowBytes,
                   target.rowBytes,
                   rows.stride,
                   target.stride};
  return Status();
}

Status StepPreparer::prepareStep(const CheckIndicesStep &step,
                                 PreparedStep &prepared) {
  prepared.op = PreparedCheck{buffers[step.buffer],
                              &function.buffers[step.buffer], &step.indices};
  return Status();
}

Status StepPreparer::prepareStep(const AllReduceStep &step,
                                 PreparedStep &prepared) {
  const Buffer &buffer = function.buffers[step.buffer];
  prepared.op = PreparedAllReduce{
      buffers[step.buffer],
      static_cast<size_t>(buffer.bytes / sizeOf(buffer.type)), buffer.type,
      step.kind, static_cast<size_t>(step.rowElements)};
  return Status();
}

std::vector<RankPart>
StepPreparer::partsOf(const std::vector<OwnedPart> &parts) const {
  std::vector<RankPart> result;
  for (const OwnedPart &part : parts)
    result.push_back({buffers[part.buffer],
                      static_cast<size_t>(function.buffers[part.buffer].bytes),
                      device.shares().ownerOf(part.owner)});
  return result;
}

Status StepPreparer::prepareStep(const ReduceScatterStep &step,
                                 PreparedStep &prepared) {
  prepared.op = PreparedReduceScatter{
      partsOf(step.parts), function.buffers[step.parts.front().buffer].type,
      step.kind};
  return Status();
}

Status StepPreparer::prepareStep(const AllGatherStep &step,
                                 PreparedStep &prepared) {
  prepared.op = PreparedAllGather{partsOf(step.parts)};
  return Status();
}

Status StepPreparer::prepareStep(const IfStep &step, PreparedStep &prepared) {
  PreparedIf conditional;
  conditional.predicate = buffers[step.predicate];
  Status status = prepare(step.then, conditional.then);
  if (status.ok())
    status = prepare(step.otherwise, conditional.otherwise);
  prepared.op = std::move(conditional);
  return status;
}

// Each findAddresses adds the addresses stored in `prepared`, which was
// prepared from `step`, to `found`.
static void findAddresses(const LaunchStep &step, PreparedStep &prepared,
                          AddressList &found) {
  auto &args = std::get<PreparedLaunch>(prepared.op).args;
  for (size_t i = 0; i < args.size(); ++i)
    found.emplace_back(step.args[i], &args[i]);
}
static void findAddresses(const CopyStep &step, PreparedStep &prepared,
                          AddressList &found) {
  auto &copy = std::get<PreparedCopy>(prepared.op);
  found.emplace_back(step.src, &copy.src);
  found.emplace_back(step.dst, &copy.dst);
}
static void findAddresses(const CheckIndicesStep &step, PreparedStep &prepared,
                          AddressList &found) {
  found.emplace_back(step.buffer,
                     &std::get<PreparedCheck>(prepared.op).address);
}
static void findAddresses(const AllReduceStep &step, PreparedStep &prepared,
                          AddressList &found) {
  found.emplace_back(step.buffer,
                     &std::get<PreparedAllReduce>(prepared.op).address);
}
// The exchanges with owners are in no loop, so their addresses stay.
static void findAddresses(const ReduceScatterStep &, PreparedStep &,
                          AddressList &) {}
static void findAddresses(const AllGatherStep &, PreparedStep &,
                          AddressList &) {}
static void findAddresses(std::initializer_list<std::optional<size_t>> operands,
                          const std::optional<Epilogue> &epilogue,
                          const std::vector<size_t> &summed,
                          PreparedStep &prepared, AddressList &found) {
  std::vector<void **> addresses =
      std::get<std::unique_ptr<Contraction>>(prepared.op)->addresses();
  size_t next = 0;
  for (const std::optional<size_t> &operand : operands) {
    void **address = addresses[next++];
    if (operand)
      found.emplace_back(*operand, address);
  }
  for (size_t i = 0; epilogue && i < epilogue->args.size(); ++i)
    found.emplace_back(epilogue->args[i], addresses[next++]);
  for (size_t buffer : summed)
    found.emplace_back(buffer, addresses[next++]);
}
static void findAddresses(const MatMulStep &step, PreparedStep &prepared,
                          AddressList &found) {
  // The sums come first, then the summed operand, as in Contraction::addresses.
  std::vector<size_t> summed;
  if (step.fused)
    summed = {*step.fused->biasGrad,
              step.fused->kind == FusedKind::BGradA ? step.a : step.b};
  findAddresses({step.a, step.b, step.c}, step.epilogue, summed, prepared,
                found);
}
static void findAddresses(const ConvStep &step, PreparedStep &prepared,
                          AddressList &found) {
  findAddresses({step.x, step.w, step.y}, step.epilogue, {}, prepared, found);
}
static void findAddresses(const AttentionStep &, PreparedStep &,
                          AddressList &) {}
static void findAddresses(const std::vector<Step> &steps,
                          std::vector<PreparedStep> &prepared,
                          AddressList &found);
static void findAddresses(const IfStep &step, PreparedStep &prepared,
                          AddressList &found) {
  auto &conditional = std::get<PreparedIf>(prepared.op);
  found.emplace_back(step.predicate, &conditional.predicate);
  findAddresses(step.then, conditional.then, found);
  findAddresses(step.otherwise, conditional.otherwise, found);
}
static void findAddresses(const ForStep &step, PreparedStep &prepared,
                          AddressList &found) {
  for (PreparedBody &body : std::get<PreparedFor>(prepared.op).bodies)
    findAddresses(step.steps, body.steps, found);
}
static void findAddresses(const std::vector<Step> &steps,
                          std::vector<PreparedStep> &prepared,
                          AddressList &found) {
  assert(steps.size() == prepared.size() && "a prepared step per step");
  for (size_t i = 0; i < steps.size(); ++i)
    std::visit(
        [&](const auto &step) { findAddresses(step, prepared[i], found); },
        steps[i].op);
}

Status StepPreparer::prepareBody(const ForStep &step, PreparedBody &body) {
  assert(body.steps.empty() && body.moving.empty() && "a new body");
  Status status = prepare(step.steps, body.steps);
  if (!status.ok())
    return status;
  // From here on the steps do not move, so pointers into them stay valid.
  std::map<size_t, int64_t> bytesOf;
  for (const MovingBuffer &moving : step.moving)
    bytesOf[moving.buffer] = moving.bytes;
  AddressList found;
  findAddresses(step.steps, body.steps, found);
  for (auto [buffer, address] : found)
    if (auto moving = bytesOf.find(buffer); moving != bytesOf.end())
      body.moving.push_back({address, moving->second});
  return status;
}

// True if iterations run in parallel. There must be at least four per worker,
// or the same number for each worker. With 8 iterations on 3 workers, for
// example, a worker would idle, so the workers share the steps of each
// iteration instead.
static bool runsApart(const ForStep &loop, int workers) {
  return loop.privateMemory && workers > 1 &&
         (loop.count % workers == 0 || loop.count >= 4 * int64_t(workers));
}

static int64_t findPrivateBytes(const std::vector<Step> &steps, int workers) {
  int64_t bytes = 0;
  auto visit = [&](const std::vector<Step> &list) {
    bytes = std::max(bytes, findPrivateBytes(list, workers));
  };
  for (const Step &step : steps) {
    if (const auto *conditional = std::get_if<IfStep>(&step.op)) {
      visit(conditional->then);
      visit(conditional->otherwise);
    }
    const auto *loop = std::get_if<ForStep>(&step.op);
    if (loop && runsApart(*loop, workers))
      bytes = std::max(bytes, loop->privateMemory->bytes);
    else if (loop)
      visit(loop->steps);
  }
  return bytes;
}

int64_t findPrivateBytes(const Plan &plan, int workers) {
  int64_t bytes = 0;
  for (const auto &[name, function] : plan.functions)
    bytes = std::max(bytes, findPrivateBytes(function.steps, workers));
  return bytes;
}

// Returns the addresses `buffers` for one worker: buffers in the loop's private
// memory move to the worker's memory `own`.
static std::vector<void *> moveBuffers(const Function &function,
                                       const std::vector<void *> &buffers,
                                       const PrivateMemory &memory,
                                       std::byte *own) {
  assert(own && buffers.size() == function.buffers.size() &&
         "a worker has private memory, and an address per buffer");
  std::vector<void *> moved = buffers;
  for (size_t i = 0; i < moved.size(); ++i)
    if (const Buffer &buffer = function.buffers[i]; contains(memory, buffer))
      moved[i] = own + (buffer.offset - memory.offset);
  return moved;
}

Status StepPreparer::prepareStep(const ForStep &step, PreparedStep &prepared) {
  PreparedFor loop;
  loop.count = step.count;
  const bool isApart = runsApart(step, device.workers().size());
  const int bodies = isApart ? device.workers().size() : 1;
  loop.bodies.resize(static_cast<size_t>(bodies));
  runsAlone = runsAlone || isApart;
  for (int worker = 0; worker < bodies; ++worker) {
    // Tracing runs the first body step by step on all workers. Each other body
    // belongs to one worker.
    const std::vector<void *> shared = buffers;
    if (worker > 0) {
      assert(step.privateMemory && "only loops with private memory run apart");
      buffers = moveBuffers(function, shared, *step.privateMemory,
                            device.privateMemoryOf(worker));
      workers = 1;
    }
    Status status = prepareBody(step, loop.bodies[static_cast<size_t>(worker)]);
    buffers = shared;
    workers = isApart ? device.workers().size() : workers;
    if (!status.ok())
      return status;
  }
  runsAlone = runsAlone && !isApart;
  prepared.op = std::move(loop);
  return Status();
}

Status StepPreparer::prepareStep(const MatMulStep &step,
                                 PreparedStep &prepared) {
  MatMulOperands operands{operand(step.a),
                          operand(step.b),
                          operand(step.c),
                          {},
                          step.fused ? operand(step.fused->biasGrad)
                                     : Operand()};
  if (Status status = resolve(step.epilogue, operands.epilogue); !status.ok())
    return status;
  return keep(device.contractions().prepare(step, std::move(operands), workers),
              prepared);
}

Status StepPreparer::prepareStep(const ConvStep &step, PreparedStep &prepared) {
  ConvOperands operands{operand(step.x), operand(step.w), operand(step.y), {}};
  if (Status status = resolve(step.epilogue, operands.epilogue); !status.ok())
    return status;
  return keep(device.contractions().prepare(step, std::move(operands), workers),
              prepared);
}

Status StepPreparer::prepareStep(const AttentionStep &, PreparedStep &) {
  // The plan's verifier rejects attention in plans for a CPU.
  return Status(StatusCode::Unsupported, "a CPU has no step for attention");
}

StatusOr<std::vector<PreparedStep>>
prepareSteps(CPUDevice &device, const Artifact &artifact,
             const Function &function, const std::vector<void *> &buffers) {
  assert(buffers.size() == function.buffers.size() && "an address per buffer");
  std::vector<PreparedStep> steps;
  StepPreparer preparer(device, artifact, function, buffers);
  if (Status status = preparer.prepare(function.steps, steps); !status.ok())
    return status;
  const std::vector<size_t> before = findReductionsBefore(function, buffers);
  assert(steps.size() == before.size() && "a prepared step per step");
  for (size_t i = 0; i < steps.size(); ++i)
    steps[i].reductionsBefore = steps[i].isSkipped() ? 0 : before[i];
  return steps;
}

} // namespace mpc::runtime
