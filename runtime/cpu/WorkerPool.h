// The CPU device's threads: the caller and N - 1 workers that share the slices
// of one parallel loop at a time.
//
// Slices are handed out by an atomic counter. Which thread runs a slice varies;
// what a slice computes must not depend on it, and then results have the same
// bits on any number of threads. Whoever waits spins for a few microseconds,
// because the next step of a plan usually follows at once, then sleeps.
//
// Loops run in IEEE's default floating-point mode on every thread, whatever
// mode the calling thread is in: results do not depend on what else a process
// does. Subnormals are kept (only the CPU's bf16 instructions flush them,
// always).
//
// fork(2) copies the calling thread alone. A pool made before it runs its loops
// without workers in the child, and may be destroyed there: it leaves behind
// what the workers would have to let go of.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_WORKERPOOL_H
#define MPC_RUNTIME_CPU_WORKERPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace mpc::runtime {

class WorkerPool {
public:
  /// `threads` counts the caller; 0 means one per core this process may keep
  /// busy (Cores.h). Throws std::system_error where the system does not give
  /// that many.
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool &) = delete;
  WorkerPool &operator=(const WorkerPool &) = delete;

  int size() const { return static_cast<int>(shared->workers.size()) + 1; }

  /// Calls body(slice, worker) for every slice in [0, slices), worker being in
  /// [0, size()), and returns when all are done. `body` does not throw and does
  /// not call parallelFor. One caller at a time.
  template <typename Body>
  void parallelFor(int64_t slices, Body &&body) {
    run(slices, {&body, [](void *context, int64_t slice, int worker) {
                   (*static_cast<std::remove_reference_t<Body> *>(context))(
                       slice, worker);
                 }});
  }

private:
  /// A callable that is not owned.
  struct Task {
    void *context = nullptr;
    void (*call)(void *context, int64_t slice, int worker) = nullptr;
  };

  /// State that the caller and the workers share. Workers wait inside it, so it
  /// is destroyed after they have ended.
  struct Shared {
    ~Shared() { stop(); }

    void run(int64_t slices, Task task);
    void stop();
    void workerMain(int worker);
    void claimSlices(int worker);
    void awaitLoop(uint64_t seen);
    void awaitWorkers();

    std::vector<std::thread> workers;

    // The current loop. The caller writes these while no loop is open.
    Task task;
    int64_t sliceCount = 0;

    // A worker enters a loop by raising `inside` and then looking at `open`;
    // the caller leaves it by clearing `open` and then waiting for `inside` to
    // be zero. So the caller never waits for a worker that has not woken up
    // yet, and a late one finds the loop closed. Cache lines apart: all threads
    // use them.
    alignas(64) std::atomic<int64_t> nextSlice{0};
    alignas(64) std::atomic<int> inside{0};
    alignas(64) std::atomic<uint64_t> loopCount{0}; ///< loops started so far
    std::atomic<bool> open{false};
    std::atomic<bool> stopping{false};

    // Who sleeps says so before looking once more at what it waits for, under
    // the lock; who changes that looks for sleepers afterwards.
    std::atomic<int> sleepers{0};
    std::atomic<bool> callerSleeps{false};
    std::mutex sleepMutex;
    std::condition_variable wake, wakeCaller;
  };

  void run(int64_t slices, Task task);
  bool hasWorkers() const;

  std::unique_ptr<Shared> shared;
  /// How often this process had been forked, counted from its first ancestor.
  const uint64_t generation;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_WORKERPOOL_H
