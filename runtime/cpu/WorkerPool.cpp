// The pool's threads and the way they meet.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/WorkerPool.h"

#include "runtime/cpu/Cores.h"
#include "runtime/cpu/DeferredSignals.h"

#include <chrono>
#include <immintrin.h>
#include <pthread.h>

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

/// How often this process was forked off another since the first pool was made.
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
  const int count = threads > 0 ? threads : countUsableCores();
  shared->workers.reserve(static_cast<size_t>(count - 1));
  // Signals are for the threads that the process made itself.
  DeferredSignals deferred;
  // If a thread cannot start, the constructor throws, and the destructor of
  // `shared` stops the threads that have started.
  for (int worker = 1; worker < count; ++worker)
    shared->workers.emplace_back(
        [meeting = shared.get(), worker] { meeting->workerMain(worker); });
}

WorkerPool::~WorkerPool() {
  // In a forked child there is no thread to join, and a condition variable's
  // destructor would wait for those that slept on it: they are left behind.
  if (!shared->workers.empty() && !hasWorkers())
    static_cast<void>(shared.release());
}

/// Whether workers take part in a loop: none do in a process forked off the one
/// that made the pool.
bool WorkerPool::hasWorkers() const {
  return !shared->workers.empty() &&
         generation == forks.load(std::memory_order_relaxed);
}

void WorkerPool::run(int64_t slices, Task task) {
  DefaultFloatingPoint mode;
  if (slices > 1 && hasWorkers())
    return shared->run(slices, task);
  for (int64_t slice = 0; slice < slices; ++slice)
    task.call(task.context, slice, 0);
}

//===----------------------------------------------------------------------===//
// The threads' meeting
//===----------------------------------------------------------------------===//

void WorkerPool::Shared::stop() {
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
  for (;;) {
    int64_t slice = nextSlice.fetch_add(1, std::memory_order_relaxed);
    if (slice >= sliceCount)
      return;
    task.call(task.context, slice, worker);
  }
}

void WorkerPool::Shared::run(int64_t slices, Task newTask) {
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
void WorkerPool::Shared::awaitWorkers() {
  if (spinUntil([&] { return inside == 0; }))
    return;
  std::unique_lock<std::mutex> lock(sleepMutex);
  callerSleeps = true;
  wakeCaller.wait(lock, [&] { return inside == 0; });
  callerSleeps = false;
}

/// Returns when the number of loops started is no longer `seen`.
void WorkerPool::Shared::awaitLoop(uint64_t seen) {
  if (spinUntil([&] { return loopCount != seen; }))
    return;
  std::unique_lock<std::mutex> lock(sleepMutex);
  ++sleepers;
  wake.wait(lock, [&] { return loopCount != seen; });
  --sleepers;
}

void WorkerPool::Shared::workerMain(int worker) {
  DefaultFloatingPoint mode; // a new thread inherits its creator's
  uint64_t seen = 0;
  for (;;) {
    awaitLoop(seen);
    // The count before the flag, which is set before the count is raised: a
    // worker that has seen the end counted must not wait for another loop.
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
