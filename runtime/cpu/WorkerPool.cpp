// Implements the pool's threads and their synchronization.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/WorkerPool.h"

#include "runtime/cpu/Cores.h"
#include "runtime/cpu/DeferredSignals.h"

#include <cassert>
#include <chrono>
#include <immintrin.h>
#include <pthread.h>

namespace mpc::runtime {

/// Longer than the gap between two steps of a plan, and too short for other
/// processes on the core to notice.
static constexpr std::chrono::microseconds kSpinTime{15};

/// IEEE's default mode in the MXCSR register: round to nearest, no traps,
/// subnormals kept.
static constexpr unsigned kDefaultMXCSR = 0x1f80;

namespace {

/// While alive, sets the default floating-point mode.
class DefaultFloatingPoint {
public:
  DefaultFloatingPoint() : previous(_mm_getcsr()) { _mm_setcsr(kDefaultMXCSR); }
  ~DefaultFloatingPoint() { _mm_setcsr(previous); }

private:
  unsigned previous;
};

} // namespace

/// Counts the forks that led from the process that made the first pool to this
/// process.
static std::atomic<uint64_t> forks{0};

static uint64_t currentGeneration() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(registered);
  return forks;
}

//===----------------------------------------------------------------------===//
// The pool
//===----------------------------------------------------------------------===//

WorkerPool::WorkerPool(int threads)
    : shared(std::make_unique<Shared>()), generation(currentGeneration()) {
  assert(threads >= 0 && "checkThreads refuses negative numbers");
  const int count = threads > 0 ? threads : countUsableCores();
  shared->workers.reserve(static_cast<size_t>(count - 1));
  // New threads inherit the blocked signals, so all signals of the process go
  // to other threads than the workers.
  DeferredSignals deferred;
  // If a thread cannot start, the constructor throws. Then the destructor of
  // `shared` stops the threads that have started.
  for (int worker = 1; worker < count; ++worker)
    shared->workers.emplace_back(
        [meeting = shared.get(), worker] { meeting->workerMain(worker); });
}

WorkerPool::~WorkerPool() {
  // In a forked child there are no threads to join, and the destructor of a
  // condition variable would wait for sleepers. So leak both.
  if (!shared->workers.empty() && !hasWorkers())
    static_cast<void>(shared.release());
}

/// True if workers take part in loops. A process forked from the maker of the
/// pool has no workers.
bool WorkerPool::hasWorkers() const {
  return !shared->workers.empty() &&
         generation == forks.load(std::memory_order_relaxed);
}

void WorkerPool::run(int64_t slices, Task task) {
  assert(slices >= 0 && task.call && "a loop has a body");
  DefaultFloatingPoint mode;
  if (slices > 1 && hasWorkers())
    return shared->run(slices, task);
  for (int64_t slice = 0; slice < slices; ++slice)
    task.call(task.context, slice, 0);
}

//===----------------------------------------------------------------------===//
// Synchronization
//===----------------------------------------------------------------------===//

void WorkerPool::Shared::stop() {
  assert(!open && "no loop is running");
  stopping = true;
  ++loopCount;
  {
    std::lock_guard<std::mutex> lock(sleepMutex);
    wake.notify_all();
  }
  for (std::thread &worker : workers)
    worker.join();
}

void WorkerPool::Shared::claimSlices(int worker) {
  assert(worker >= 0 && "the caller is worker 0");
  for (;;) {
    int64_t slice = nextSlice.fetch_add(1, std::memory_order_relaxed);
    if (slice >= sliceCount)
      return;
    task.call(task.context, slice, worker);
  }
}

void WorkerPool::Shared::run(int64_t slices, Task newTask) {
  assert(!open && "one thread runs one loop at a time");
  task = newTask;
  sliceCount = slices;
  nextSlice.store(0, std::memory_order_relaxed);
  open = true;
  ++loopCount;
  if (sleepers > 0) {
    // A worker holds this lock between checking `loopCount` and going to sleep.
    // Without the lock, the worker could miss the wakeup.
    std::lock_guard<std::mutex> lock(sleepMutex);
    wake.notify_all();
  }
  claimSlices(0);
  open = false;
  awaitWorkers();
}

/// Spins until `done` holds. False on timeout.
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

/// Waits until no worker is in the loop. The last worker may be waiting for the
/// very core that the caller runs on, so the caller sleeps after a while.
void WorkerPool::Shared::awaitWorkers() {
  if (spinUntil([&] { return inside == 0; }))
    return;
  std::unique_lock<std::mutex> lock(sleepMutex);
  callerSleeps = true;
  wakeCaller.wait(lock, [&] { return inside == 0; });
  callerSleeps = false;
}

/// Waits until the number of started loops differs from `seen`.
void WorkerPool::Shared::awaitLoop(uint64_t seen) {
  if (spinUntil([&] { return loopCount != seen; }))
    return;
  std::unique_lock<std::mutex> lock(sleepMutex);
  ++sleepers;
  wake.wait(lock, [&] { return loopCount != seen; });
  --sleepers;
}

void WorkerPool::Shared::workerMain(int worker) {
  DefaultFloatingPoint mode; // a new thread inherits its creator's mode
  uint64_t seen = 0;
  for (;;) {
    awaitLoop(seen);
    // Read the count before `stopping`. stop() sets the flag before it raises
    // the count, so a worker that sees the last count also sees the flag.
    seen = loopCount;
    if (stopping)
      return;
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
