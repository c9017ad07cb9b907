// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUExecutable.h"
#include "runtime/cpu/CPUDevice.h"
#include "runtime/cpu/DeferredSignals.h"

#include <cstring>
#include <mutex>
#include <new>

namespace mpc::runtime {

/// Copies are shared among the workers in pieces of this many bytes.
static constexpr int64_t kCopyGrain = 1 << 20;

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
    // Conditions and loops run steps of their own; their errors name those.
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
    // A launch, product, convolution, copy or check.
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

/// One thread: it reads less than what looks the elements up.
Status CPUExecutable::runStep(PreparedCheck &check) {
  return checkIndices(check.buffer->type, check.address, check.buffer->shape,
                      *check.indices);
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
  DeferredSignals deferred;
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

} // namespace mpc::runtime
