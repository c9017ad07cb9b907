// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUExecutable.h"
#include "runtime/Communicator.h"
#include "runtime/cpu/DeferredSignals.h"

#include <cassert>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>

namespace mpc::runtime {

/// Workers share a copy in slices of this many bytes.
static constexpr int64_t kCopyGrain = 1 << 20;

static bool holds(const PreparedIf &conditional) {
  return *static_cast<const uint8_t *>(conditional.predicate);
}

/// Adds the step's name to a failure.
Status CPUExecutable::locate(const PreparedStep &step, const Status &status) {
  return status.ok() ? status
                     : Status(status.getCode(),
                              "'" + step.name + "': " + status.message());
}

Status CPUExecutable::runSteps(std::vector<PreparedStep> &list,
                               const Crew &crew) {
  for (PreparedStep &step : list) {
    Status status =
        std::visit([&](auto &op) { return runStep(op, crew); }, step.op);
    if (!status.ok())
      return locate(step, status);
  }
  return Status();
}

Status CPUExecutable::run() {
  if (ReductionQueue *reductions = device.reductions())
    return runBeside(*reductions);
  return runSteps(steps, Crew(device));
}

namespace {
/// Leaves no reduction in progress if an exception ends a run.
class ReductionScope {
public:
  explicit ReductionScope(ReductionQueue &queue) : queue(queue) {}
  ~ReductionScope() {
    if (!isFinished)
      static_cast<void>(queue.finish(/*drops=*/true));
  }
  Status finish(bool drops) {
    isFinished = true;
    return queue.finish(drops);
  }

private:
  ReductionQueue &queue;
  bool isFinished = false;
};
} // namespace

/// Runs the steps while the queue's thread runs the exchanges.
Status CPUExecutable::runBeside(ReductionQueue &reductions) {
  ReductionScope scope(reductions);
  Status status;
  for (PreparedStep &step : steps) {
    status = reductions.waitFor(step.reductionsBefore);
    if (!status.ok())
      break;
    if (step.isExchange()) {
      reductions.push(step);
      continue;
    }
    status = locate(
        step, std::visit([&](auto &op) { return runStep(op, Crew(device)); },
                         step.op));
    if (!status.ok())
      break;
  }
  Status reduced = scope.finish(/*drops=*/!status.ok());
  return status.ok() ? reduced : status;
}

Status CPUExecutable::runTimed(std::vector<double> &seconds) {
  using Clock = std::chrono::steady_clock;
  seconds.clear();
  for (PreparedStep &step : steps) {
    Clock::time_point begin = Clock::now();
    Status status = std::visit(
        [&](auto &op) { return runStep(op, Crew(device)); }, step.op);
    seconds.push_back(
        std::chrono::duration<double>(Clock::now() - begin).count());
    if (!status.ok())
      return locate(step, status);
  }
  return Status();
}

/// Runs the steps `list`, and calls `observer` before and after each. `list[i]`
/// was prepared from `declared[i]`.
Status CPUExecutable::runSteps(std::vector<PreparedStep> &list,
                               const std::vector<Step> &declared,
                               StepObserver &observer) {
  assert(list.size() == declared.size() && "a prepared step per step");
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].isSkipped())
      continue;
    // Errors inside a condition or a loop already name the inner step.
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
      if (Status status = runLoop(loop->bodies.front(),
                                  std::get<ForStep>(declared[i].op), observer);
          !status.ok())
        return status;
      continue;
    }
    Status status = observer.before(declared[i]);
    if (status.ok())
      status = std::visit([&](auto &op) { return runStep(op, Crew(device)); },
                          list[i].op);
    if (status.ok())
      status = observer.after(declared[i]);
    if (!status.ok())
      return locate(list[i], status);
  }
  return Status();
}

Status CPUExecutable::runStep(PreparedLaunch &launch, const Crew &crew) {
  assert(launch.kernel && launch.grain > 0 && "a resolved kernel");
  int64_t slices = (launch.extent + launch.grain - 1) / launch.grain;
  crew.forEachSlice(slices, [&](int64_t slice, int worker) {
    int64_t begin = slice * launch.grain;
    launch.kernel(launch.args.data(), begin,
                  std::min(begin + launch.grain, launch.extent),
                  crew.scratchOf(worker).scratch);
  });
  return Status();
}

Status CPUExecutable::runStep(PreparedCopy &copy, const Crew &crew) {
  assert((copy.rowBytes > 0 || copy.bytes == 0) && "rows have bytes");
  int64_t slices = (copy.bytes + kCopyGrain - 1) / kCopyGrain;
  crew.forEachSlice(slices, [&](int64_t slice, int) {
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

/// Runs on one thread: a check reads less memory than the step that uses the
/// indices.
Status CPUExecutable::runStep(PreparedCheck &check, const Crew &crew) {
  return checkIndices(check.buffer->type, check.address, check.buffer->shape,
                      *check.indices);
}

Status CPUExecutable::runStep(PreparedAllReduce &reduction, const Crew &) {
  Communicator *communicator = device.communicator();
  if (!communicator || communicator->size() == 1)
    return Status();
  return reduction.run(*communicator);
}

Status CPUExecutable::runStep(PreparedReduceScatter &reduction, const Crew &) {
  Communicator *communicator = device.communicator();
  if (!communicator || communicator->size() == 1)
    return Status();
  return communicator->reduceToOwners(reduction.parts, reduction.type,
                                      reduction.kind);
}

Status CPUExecutable::runStep(PreparedAllGather &gather, const Crew &) {
  Communicator *communicator = device.communicator();
  if (!communicator || communicator->size() == 1)
    return Status();
  return communicator->gatherFromOwners(gather.parts);
}

Status CPUExecutable::runStep(PreparedSkip &, const Crew &) { return Status(); }

Status CPUExecutable::runStep(PreparedIf &conditional, const Crew &crew) {
  return runSteps(holds(conditional) ? conditional.then : conditional.otherwise,
                  crew);
}

Status CPUExecutable::runStep(PreparedFor &loop, const Crew &crew) {
  assert(!loop.bodies.empty() && loop.bodies.front().iteration == 0 &&
         "addresses begin and end at iteration 0");
  if (loop.bodies.size() > 1)
    return runApart(loop);
  PreparedBody &body = loop.bodies.front();
  Status status;
  for (int64_t i = 0; i < loop.count && status.ok(); ++i) {
    body.moveTo(i);
    status = runSteps(body.steps, crew);
  }
  body.moveTo(0);
  return status;
}

namespace {
/// Keeps the failure of the lowest iteration or slice, regardless of which
/// worker reports first.
class FirstFailure {
public:
  void note(int64_t index, const Status &status) {
    if (status.ok())
      return;
    std::lock_guard<std::mutex> lock(mutex);
    if (failure.ok() || index < first) {
      failure = status;
      first = index;
    }
  }
  Status get() const { return failure; }

private:
  std::mutex mutex;
  Status failure;
  int64_t first = 0;
};
} // namespace

/// Runs each iteration on one worker, in that worker's private memory.
Status CPUExecutable::runApart(PreparedFor &loop) {
  assert(int(loop.bodies.size()) == device.workers().size() &&
         "a body per worker");
  DeferredSignals deferred;
  FirstFailure failure;
  device.workers().parallelFor(loop.count, [&](int64_t i, int worker) {
    PreparedBody &body = loop.bodies[static_cast<size_t>(worker)];
    body.moveTo(i);
    // No exception may leave a worker, and building an error message allocates.
    try {
      failure.note(i, runSteps(body.steps, Crew(device, worker)));
    } catch (const std::bad_alloc &) {
      failure.note(i, Status(StatusCode::IO, "out of memory"));
    }
  });
  for (PreparedBody &body : loop.bodies)
    body.moveTo(0);
  return failure.get();
}

Status CPUExecutable::runLoop(PreparedBody &body, const ForStep &declared,
                              StepObserver &observer) {
  auto moveTo = [&](int64_t next) {
    for (const MovingBuffer &moving : declared.moving)
      observer.move(moving.buffer, (next - body.iteration) * moving.bytes);
    body.moveTo(next);
  };
  Status status;
  for (int64_t i = 0; i < declared.count && status.ok(); ++i) {
    moveTo(i);
    status = runSteps(body.steps, declared.steps, observer);
  }
  moveTo(0);
  return status;
}

/// Runs one slice. No exception may leave a worker, and libraries allocate.
static Status runSlice(Contraction &contraction, size_t phase, int64_t slice,
                       const SliceContext &context) {
  try {
    return contraction.runSlice(phase, slice, context);
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::IO, "out of memory");
  }
}

Status CPUExecutable::runStep(std::unique_ptr<Contraction> &contraction,
                              const Crew &crew) {
  DeferredSignals deferred;
  FirstFailure failure;
  for (size_t phase = 0; phase < contraction->phases().size(); ++phase) {
    crew.forEachSlice(contraction->phases()[phase],
                      [&](int64_t slice, int worker) {
                        failure.note(slice, runSlice(*contraction, phase, slice,
                                                     crew.scratchOf(worker)));
                      });
    if (Status status = failure.get(); !status.ok())
      return status;
  }
  return Status();
}

} // namespace mpc::runtime
