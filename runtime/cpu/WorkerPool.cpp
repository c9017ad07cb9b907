// The pool's threads and the way they meet.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/WorkerPool.h"

#include <algorithm>
#include <chrono>
#include <immintrin.h>
#include <sched.h>

namespace mpc::runtime {

/// Longer than the gap between two steps of a plan, shorter than what another
/// process on the core would notice.
static constexpr std::chrono::microseconds kSpinTime{15};

/// Round to nearest, no traps, subnormals kept.
static constexpr unsigned kDefaultMXCSR = 0x1f80;

namespace {

/// The default floating-point mode while this lives.
class DefaultFloatingPoint {
public:
  DefaultFloatingPoint() : previous(_mm_getcsr()) { _mm_setcsr(kDefaultMXCSR); }
  ~DefaultFloatingPoint() { _mm_setcsr(previous); }

private:
  unsigned previous;
};

} // namespace

static int usableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

WorkerPool::WorkerPool(int threads) {
  int count = threads > 0 ? threads : usableCores();
  workers.reserve(static_cast<size_t>(count - 1));
  try {
    for (int worker = 1; worker < count; ++worker)
      workers.emplace_back([this, worker] { workerMain(worker); });
  } catch (...) {
    stop(); // those that did start
    throw;
  }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  stopping = true;
  ++loopCount;
  {
    std::lock_guard<std::mutex> lock(sleepMutex);
    wake.notify_all();
  }
  for (std::thread &worker : workers)
    worker.join();
}

void WorkerPool::claimSlices(int worker) {
  for (;;) {
    int64_t slice = nextSlice.fetch_add(1, std::memory_order_relaxed);
    if (slice >= sliceCount)
      return;
    task.call(task.context, slice, worker);
  }
}

void WorkerPool::run(int64_t slices, Task newTask) {
  DefaultFloatingPoint mode;
  if (slices <= 1 || workers.empty()) {
    for (int64_t slice = 0; slice < slices; ++slice)
      newTask.call(newTask.context, slice, 0);
    return;
  }
  task = newTask;
  sliceCount = slices;
  nextSlice.store(0, std::memory_order_relaxed);
  open = true;
  ++loopCount;
  if (sleepers > 0) {
    // A worker between looking at the count and going to sleep holds the lock.
    std::lock_guard<std::mutex> lock(sleepMutex);
    wake.notify_all();
  }
  claimSlices(0);
  open = false;
  awaitWorkers();
}

/// Spins until `done` holds; false where that took too long.
template <typename Done>
static bool spinUntil(Done done) {
  auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done())
        return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

/// Returns when no worker is in the loop any more. The last one may be waiting
/// for the very core the caller runs on, so the caller sleeps after a while.
void WorkerPool::awaitWorkers() {
  if (spinUntil([&] { return inside == 0; }))
    return;
  std::unique_lock<std::mutex> lock(sleepMutex);
  callerSleeps = true;
  wakeCaller.wait(lock, [&] { return inside == 0; });
  callerSleeps = false;
}

/// Returns when the number of loops started is no longer `seen`.
void WorkerPool::awaitLoop(uint64_t seen) {
  if (spinUntil([&] { return loopCount != seen; }))
    return;
  std::unique_lock<std::mutex> lock(sleepMutex);
  ++sleepers;
  wake.wait(lock, [&] { return loopCount != seen; });
  --sleepers;
}

void WorkerPool::workerMain(int worker) {
  DefaultFloatingPoint mode; // a new thread inherits its creator's
  uint64_t seen = 0;
  for (;;) {
    awaitLoop(seen);
    if (stopping)
      return;
    seen = loopCount;
    ++inside;
    if (open)
      claimSlices(worker);
    if (--inside == 0 && callerSleeps) {
      std::lock_guard<std::mutex> lock(sleepMutex);
      wakeCaller.notify_one();
    }
  }
}

} // namespace mpc::runtime
