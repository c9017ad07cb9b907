// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUExecutable.h"
#include "runtime/cpu/CPUDevice.h"
#include "runtime/cpu/DeferredSignals.h"

#include <cstring>
#include <mutex>
#include <new>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>

namespace mpc::runtime {
namespace prof {
struct Row {
  std::string name;
  double wall = 0, cpu = 0;
  long runs = 0, slices = 0;
};
static std::map<std::pair<const void *, int>, Row> rows;
static std::string current;
static long skip = 0;
static double now(clockid_t c) {
  timespec t;
  clock_gettime(c, &t);
  return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}
struct Dump {
  ~Dump() {
    const char *path = getenv("MPC_PROFILE");
    if (!path)
      return;
    FILE *f = fopen(path, "w");
    for (auto &[k, r] : rows)
      fprintf(f, "%s\t%d\t%ld\t%ld\t%.4f\t%.4f\n", r.name.c_str(), k.second,
              r.runs, r.slices, r.wall / r.runs, r.cpu / r.runs);
    fclose(f);
  }
};
static Dump dump;
} // namespace prof

/// Copies are shared among the workers in pieces of this many bytes.
static constexpr int64_t kCopyGrain = 1 << 20;

static bool holds(const PreparedIf &conditional) {
  return *static_cast<const uint8_t *>(conditional.predicate);
}

Status CPUExecutable::runSteps(std::vector<PreparedStep> &list) {
  for (PreparedStep &step : list) {
    prof::current = step.name;
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
  prof::Row &row = prof::rows[{&launch, -1}];
  row.name = "K " + prof::current;
  row.runs++;
  row.slices = slices;
  double begin0 = prof::now(CLOCK_MONOTONIC);
  std::atomic<int64_t> cpu{0};
  device.workers().parallelFor(slices, [&](int64_t slice, int worker) {
    double t = prof::now(CLOCK_THREAD_CPUTIME_ID);
    int64_t begin = slice * launch.grain;
    launch.kernel(launch.args.data(), begin,
                  std::min(begin + launch.grain, launch.extent),
                  device.scratchOf(worker).scratch);
    cpu.fetch_add(int64_t((prof::now(CLOCK_THREAD_CPUTIME_ID) - t) * 1e6));
  });
  row.wall += prof::now(CLOCK_MONOTONIC) - begin0;
  row.cpu += double(cpu) * 1e-6;
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
    prof::Row &row = prof::rows[{contraction.get(), int(phase)}];
    row.name = "C " + prof::current;
    row.runs++;
    row.slices = contraction->phases()[phase];
    double begin0 = prof::now(CLOCK_MONOTONIC);
    std::atomic<int64_t> cpu{0};
    struct End {
      prof::Row &row;
      double b;
      std::atomic<int64_t> &cpu;
      ~End() {
        row.wall += prof::now(CLOCK_MONOTONIC) - b;
        row.cpu += double(cpu) * 1e-6;
      }
    } endit{row, begin0, cpu};
    device.workers().parallelFor(
        contraction->phases()[phase], [&](int64_t slice, int worker) {
          double t = prof::now(CLOCK_THREAD_CPUTIME_ID);
          struct E2 {
            double t;
            std::atomic<int64_t> &cpu;
            ~E2() {
              cpu.fetch_add(
                  int64_t((prof::now(CLOCK_THREAD_CPUTIME_ID) - t) * 1e6));
            }
          } e2{t, cpu};
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
