// Memory, and steps made ready, on the host.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUDevice.h"
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/OneDNNProvider.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <system_error>

namespace mpc::runtime {
namespace {

/// Copies are shared among the workers in pieces of this many bytes.
constexpr int64_t kCopyGrain = 1 << 20;

struct PreparedLaunch {
  mpc_kernel_fn kernel;
  std::vector<void *> args;
  int64_t extent, grain;
};

/// Rows, each so many bytes behind the one before; all of a buffer is one row.
struct PreparedCopy {
  void *src, *dst;
  int64_t bytes, rowBytes, fromStride, toStride;
};

struct PreparedStep;

struct PreparedIf {
  void *predicate;
  std::vector<PreparedStep> then, otherwise;
};

/// An address within the steps of a loop that moves from one iteration to the
/// next.
struct MovingAddress {
  void **address;
  int64_t bytes;

  void move(int64_t times) const {
    *address = static_cast<std::byte *>(*address) + times * bytes;
  }
};

struct PreparedFor {
  int64_t count;
  std::vector<MovingAddress> moving;
  std::vector<PreparedStep> steps;

  /// Goes on to the iteration that is `times` behind this one.
  void move(int64_t times) const {
    for (const MovingAddress &address : moving)
      address.move(times);
  }
};

/// A step with kernels and addresses resolved.
struct PreparedStep {
  std::string name;
  std::variant<PreparedLaunch, PreparedCopy, PreparedIf, PreparedFor,
               std::unique_ptr<Contraction>>
      op;
};

/// What each of the addresses in prepared steps is the address of.
using AddressList = std::vector<std::pair<size_t, void **>>;

class CPUExecutable : public Executable {
public:
  CPUExecutable(CPUDevice &device, const Function &function,
                std::vector<PreparedStep> steps)
      : device(device), function(function), steps(std::move(steps)) {}

  Status run() override { return runSteps(steps); }
  Status run(StepObserver &observer) override {
    return runSteps(steps, function.steps, observer);
  }

private:
  Status runSteps(std::vector<PreparedStep> &list);
  Status runSteps(std::vector<PreparedStep> &list,
                  const std::vector<Step> &declared, StepObserver &observer);
  Status runStep(PreparedLaunch &launch);
  Status runStep(PreparedCopy &copy);
  Status runStep(PreparedIf &conditional);
  Status runStep(PreparedFor &loop);
  Status runLoop(PreparedFor &loop, const ForStep &declared,
                 StepObserver &observer);
  Status runStep(std::unique_ptr<Contraction> &contraction);
  Status runSlice(Contraction &contraction, size_t phase, int64_t slice,
                  int worker);

  CPUDevice &device;
  const Function &function;
  std::vector<PreparedStep> steps;
};

/// Turns the steps of a function into prepared ones.
class StepPreparer {
public:
  StepPreparer(CPUDevice &device, const Artifact &artifact,
               const Function &function, const std::vector<void *> &buffers)
      : device(device), artifact(artifact), function(function),
        buffers(buffers) {}

  Status prepare(const std::vector<Step> &steps,
                 std::vector<PreparedStep> &prepared);

private:
  Status prepareStep(const LaunchStep &step, PreparedStep &prepared);
  Status prepareStep(const CopyStep &step, PreparedStep &prepared);
  Status prepareStep(const IfStep &step, PreparedStep &prepared);
  Status prepareStep(const ForStep &step, PreparedStep &prepared);
  Status prepareStep(const MatMulStep &step, PreparedStep &prepared);
  Status prepareStep(const ConvStep &step, PreparedStep &prepared);

  std::vector<void *> addresses(const std::vector<size_t> &indices) const;
  Operand operand(const std::optional<size_t> &index) const;
  Status resolve(const std::optional<Epilogue> &epilogue, EpilogueCall &call);
  Status keep(StatusOr<std::unique_ptr<Contraction>> contraction,
              PreparedStep &prepared);

  CPUDevice &device;
  const Artifact &artifact;
  const Function &function;
  const std::vector<void *> &buffers;
};

} // namespace

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

Status StepPreparer::prepare(const std::vector<Step> &steps,
                             std::vector<PreparedStep> &prepared) {
  for (const Step &step : steps) {
    PreparedStep result;
    result.name = step.name;
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
  for (size_t index : indices)
    result.push_back(buffers[index]);
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
  if (Status status = device.reserveScratch((*contraction)->sharedBytes(),
                                            (*contraction)->scratchBytes());
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

Status StepPreparer::prepareStep(const IfStep &step, PreparedStep &prepared) {
  PreparedIf conditional;
  conditional.predicate = buffers[step.predicate];
  Status status = prepare(step.then, conditional.then);
  if (status.ok())
    status = prepare(step.otherwise, conditional.otherwise);
  prepared.op = std::move(conditional);
  return status;
}

// Notes every address in `prepared`, made of `step`, with its buffer.
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
static void findAddresses(std::initializer_list<std::optional<size_t>> operands,
                          const std::optional<Epilogue> &epilogue,
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
}
static void findAddresses(const MatMulStep &step, PreparedStep &prepared,
                          AddressList &found) {
  findAddresses({step.a, step.b, step.c}, step.epilogue, prepared, found);
}
static void findAddresses(const ConvStep &step, PreparedStep &prepared,
                          AddressList &found) {
  findAddresses({step.x, step.w, step.y}, step.epilogue, prepared, found);
}
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
  findAddresses(step.steps, std::get<PreparedFor>(prepared.op).steps, found);
}
static void findAddresses(const std::vector<Step> &steps,
                          std::vector<PreparedStep> &prepared,
                          AddressList &found) {
  for (size_t i = 0; i < steps.size(); ++i)
    std::visit(
        [&](const auto &step) { findAddresses(step, prepared[i], found); },
        steps[i].op);
}

Status StepPreparer::prepareStep(const ForStep &step, PreparedStep &prepared) {
  PreparedFor loop;
  loop.count = step.count;
  Status status = prepare(step.steps, loop.steps);
  if (!status.ok())
    return status;
  // The steps stay where they are from here on.
  std::map<size_t, int64_t> bytesOf;
  for (const MovingBuffer &moving : step.moving)
    bytesOf[moving.buffer] = moving.bytes;
  AddressList found;
  findAddresses(step.steps, loop.steps, found);
  for (auto [buffer, address] : found)
    if (auto moving = bytesOf.find(buffer); moving != bytesOf.end())
      loop.moving.push_back({address, moving->second});
  prepared.op = std::move(loop);
  return status;
}

Status StepPreparer::prepareStep(const MatMulStep &step,
                                 PreparedStep &prepared) {
  MatMulOperands operands{
      operand(step.a), operand(step.b), operand(step.c), {}};
  if (Status status = resolve(step.epilogue, operands.epilogue); !status.ok())
    return status;
  return keep(device.contractions().prepare(step, std::move(operands)),
              prepared);
}

Status StepPreparer::prepareStep(const ConvStep &step, PreparedStep &prepared) {
  ConvOperands operands{operand(step.x), operand(step.w), operand(step.y), {}};
  if (Status status = resolve(step.epilogue, operands.epilogue); !status.ok())
    return status;
  return keep(device.contractions().prepare(step, std::move(operands)),
              prepared);
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

static bool holds(const PreparedIf &conditional) {
  return *static_cast<const uint8_t *>(conditional.predicate);
}

Status CPUExecutable::runSteps(std::vector<PreparedStep> &list) {
  for (PreparedStep &step : list) {
    Status status = std::visit([&](auto &op) { return runStep(op); }, step.op);
    if (!status.ok())
      return Status(status.getCode(),
                    "'" + step.name + "': " + status.message());
  }
  return Status();
}

/// `declared[i]` is what `list[i]` was prepared from.
Status CPUExecutable::runSteps(std::vector<PreparedStep> &list,
                               const std::vector<Step> &declared,
                               StepObserver &observer) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (auto *conditional = std::get_if<PreparedIf>(&list[i].op)) {
      const auto &step = std::get<IfStep>(declared[i].op);
      Status status =
          holds(*conditional)
              ? runSteps(conditional->then, step.then, observer)
              : runSteps(conditional->otherwise, step.otherwise, observer);
      if (!status.ok())
        return status;
      continue;
    }
    if (auto *loop = std::get_if<PreparedFor>(&list[i].op)) {
      if (Status status =
              runLoop(*loop, std::get<ForStep>(declared[i].op), observer);
          !status.ok())
        return status;
      continue;
    }
    Status status = observer.before(declared[i]);
    if (status.ok())
      status = std::visit([&](auto &op) { return runStep(op); }, list[i].op);
    if (status.ok())
      status = observer.after(declared[i]);
    if (!status.ok())
      return Status(status.getCode(),
                    "'" + list[i].name + "': " + status.message());
  }
  return Status();
}

Status CPUExecutable::runStep(PreparedLaunch &launch) {
  int64_t slices = (launch.extent + launch.grain - 1) / launch.grain;
  device.workers().parallelFor(slices, [&](int64_t slice, int worker) {
    int64_t begin = slice * launch.grain;
    launch.kernel(launch.args.data(), begin,
                  std::min(begin + launch.grain, launch.extent),
                  device.scratchOf(worker).scratch);
  });
  return Status();
}

Status CPUExecutable::runStep(PreparedCopy &copy) {
  int64_t slices = (copy.bytes + kCopyGrain - 1) / kCopyGrain;
  device.workers().parallelFor(slices, [&](int64_t slice, int) {
    int64_t at = slice * kCopyGrain;
    int64_t end = std::min(at + kCopyGrain, copy.bytes);
    while (at < end) {
      int64_t row = at / copy.rowBytes, column = at % copy.rowBytes;
      int64_t bytes = std::min(copy.rowBytes - column, end - at);
      std::memcpy(static_cast<std::byte *>(copy.dst) + row * copy.toStride +
                      column,
                  static_cast<const std::byte *>(copy.src) +
                      row * copy.fromStride + column,
                  static_cast<size_t>(bytes));
      at += bytes;
    }
  });
  return Status();
}

Status CPUExecutable::runStep(PreparedIf &conditional) {
  return runSteps(holds(conditional) ? conditional.then
                                     : conditional.otherwise);
}

Status CPUExecutable::runStep(PreparedFor &loop) {
  Status status;
  int64_t done = 0;
  for (; done < loop.count && status.ok(); ++done) {
    status = runSteps(loop.steps);
    loop.move(1);
  }
  loop.move(-done);
  return status;
}

Status CPUExecutable::runLoop(PreparedFor &loop, const ForStep &declared,
                              StepObserver &observer) {
  auto move = [&](int64_t times) {
    loop.move(times);
    for (const MovingBuffer &moving : declared.moving)
      observer.move(moving.buffer, times * moving.bytes);
  };
  Status status;
  int64_t done = 0;
  for (; done < loop.count && status.ok(); ++done) {
    status = runSteps(loop.steps, declared.steps, observer);
    move(1);
  }
  move(-done);
  return status;
}

/// What a slice throws must not leave a worker: libraries allocate.
Status CPUExecutable::runSlice(Contraction &contraction, size_t phase,
                               int64_t slice, int worker) {
  try {
    return contraction.runSlice(phase, slice, device.scratchOf(worker));
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::IO, "out of memory");
  }
}

Status CPUExecutable::runStep(std::unique_ptr<Contraction> &contraction) {
  std::mutex mutex;
  Status failure;
  for (size_t phase = 0; phase < contraction->phases().size(); ++phase) {
    device.workers().parallelFor(
        contraction->phases()[phase], [&](int64_t slice, int worker) {
          Status status = runSlice(*contraction, phase, slice, worker);
          if (status.ok())
            return;
          std::lock_guard<std::mutex> lock(mutex);
          if (failure.ok())
            failure = status;
        });
    if (!failure.ok())
      return failure;
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

/// Refuses an artifact that needs instructions this CPU does not have.
static Status checkTarget(const Target &target) {
  if (target.triple.rfind("x86_64", 0) != 0)
    return Status(StatusCode::Device, "the artifact is for '" + target.triple +
                                          "', this machine is x86_64; compile "
                                          "the model for this machine");
  std::vector<std::string> missing = missingFeatures(target.features);
  if (missing.empty())
    return Status();
  std::string list;
  for (const std::string &feature : missing)
    list += (list.empty() ? "" : ", ") + feature;
  return Status(StatusCode::Device,
                "the artifact was compiled for " + target.cpu +
                    " and needs CPU features this machine lacks: " + list +
                    "; compile the model here (--target native), or for a "
                    "lower target (--target x86-64-v3)");
}

StatusOr<std::unique_ptr<Device>>
CPUDevice::create(const DeviceOptions &options, const Artifact &artifact) {
  const Target &target = artifact.plan().target;
  if (options.threads < 0)
    return Status(StatusCode::Usage, "the number of threads is negative");
  if (Status status = checkTarget(target); !status.ok())
    return status;
  for (const std::string &feature : target.features)
    if (feature == "amx-tile")
      if (Status status = requestAMXPermission(); !status.ok())
        return status;

  std::unique_ptr<CPUDevice> device;
  try {
    device.reset(new CPUDevice(options.threads));
  } catch (const std::system_error &error) {
    return Status(StatusCode::Device,
                  std::string("cannot start the threads asked for: ") +
                      error.what() + "; ask for fewer (--threads)");
  }
  StatusOr<std::unique_ptr<ContractionProvider>> provider =
      OneDNNProvider::create(target.features, device->pool.size());
  if (!provider.ok())
    return provider.status();
  device->provider = std::move(*provider);
  return std::unique_ptr<Device>(std::move(device));
}

CPUDevice::~CPUDevice() {
  release(shared);
  release(perWorker);
}

static Status outOfMemory(size_t bytes) {
  return Status(StatusCode::Device, "cannot allocate " +
                                        std::to_string(bytes >> 20) +
                                        " MiB of memory; use a smaller batch");
}

StatusOr<void *> CPUDevice::allocate(size_t bytes) {
  // Large pages where the system has them; aligned_alloc wants a multiple.
  size_t alignment = bytes >= (size_t(4) << 20) ? size_t(2) << 20 : 64;
  if (bytes > SIZE_MAX - alignment)
    return outOfMemory(bytes);
  size_t rounded =
      std::max(alignment, (bytes + alignment - 1) & ~(alignment - 1));
  void *memory = std::aligned_alloc(alignment, rounded);
  if (!memory)
    return outOfMemory(bytes);
  if (alignment > 64)
    madvise(memory, rounded, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  return memory;
}

void CPUDevice::release(void *memory) { std::free(memory); }

StatusOr<const void *> CPUDevice::mapConstants(const void *host, size_t) {
  return host;
}

Status CPUDevice::upload(void *device, const void *host, size_t bytes) {
  if (bytes > 0)
    std::memcpy(device, host, bytes);
  return Status();
}

Status CPUDevice::download(void *host, const void *device, size_t bytes) {
  if (bytes > 0)
    std::memcpy(host, device, bytes);
  return Status();
}

Status CPUDevice::synchronize() { return Status(); }

size_t CPUDevice::scratchBytes() const {
  return sharedSize + perWorkerSize * static_cast<size_t>(pool.size());
}

Status CPUDevice::reserveScratch(size_t forAll, size_t forEach) {
  auto grow = [&](std::byte *&memory, size_t &size, size_t needed,
                  size_t copies) {
    if (needed <= size)
      return Status();
    needed = (needed + 4095) & ~size_t(4095);
    StatusOr<void *> grown = allocate(needed * copies);
    if (!grown.ok())
      return grown.status();
    release(memory);
    memory = static_cast<std::byte *>(*grown);
    size = needed;
    return Status();
  };
  Status status = grow(shared, sharedSize, forAll, 1);
  if (!status.ok())
    return status;
  return grow(perWorker, perWorkerSize, forEach,
              static_cast<size_t>(pool.size()));
}

SliceContext CPUDevice::scratchOf(int worker) const {
  return {worker, shared,
          perWorker + static_cast<size_t>(worker) * perWorkerSize};
}

StatusOr<std::unique_ptr<Executable>>
CPUDevice::prepare(const Artifact &artifact, const Function &function,
                   std::vector<void *> buffers) {
  std::vector<PreparedStep> steps;
  StepPreparer preparer(*this, artifact, function, buffers);
  if (Status status = preparer.prepare(function.steps, steps); !status.ok())
    return status;
  return std::unique_ptr<Executable>(
      new CPUExecutable(*this, function, std::move(steps)));
}

} // namespace mpc::runtime
