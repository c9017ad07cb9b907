// The CPU device's threads: the caller and N - 1 workers, which share the
// slices of one parallel loop at a time.
//
// An atomic counter hands out slices, so any thread may run any slice. The work
// of a slice must not depend on the thread; then results have the same bits for
// any number of threads. A waiting thread spins for a few microseconds, because
// the next step of a plan usually follows at once, and then sleeps.
//
// On every thread, loops run in IEEE's default floating-point mode, regardless
// of the calling thread's mode. So results do not depend on the rest of the
// process. Subnormals are kept, except that the CPU's bf16 instructions always
// flush them.
//
// fork(2) copies only the calling thread. In the child, a pool made before the
// fork runs its loops without workers. The child may destroy the pool, which
// leaks the memory that the missing workers would have released.
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
  /// `threads` counts the caller; 0 means one thread per core that this process
  /// may keep busy (Cores.h). Throws std::system_error if the system cannot
  /// start that many.
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool &) = delete;
  WorkerPool &operator=(const WorkerPool &) = delete;

  int size() const { return static_cast<int>(shared->workers.size()) + 1; }

  /// Calls body(slice, worker) for every slice in [0, slices), with worker in
  /// [0, size()), and returns when all slices are done. `body` must not throw
  /// or call parallelFor. Only one thread may call parallelFor at a time.
  template <typename Body>
  void parallelFor(int64_t slices, Body &&body) {
    run(slices, {&body, [](void *context, int64_t slice, int worker) {
                   (*static_cast<std::remove_reference_t<Body> *>(context))(
                       slice, worker);
                 }});
  }

private:
  /// A reference to a callable.
  struct Task {
    void *context = nullptr;
    void (*call)(void *context, int64_t slice, int worker) = nullptr;
  };

  /// State that the caller and the workers share. Workers wait on the members,
  /// so Shared must outlive the workers.
  struct Shared {
    ~Shared() { stop(); }

    void run(int64_t slices, Task task);
    void stop();
    void workerMain(int worker);
    void claimSlices(int worker);
    void awaitLoop(uint64_t seen);
    void awaitWorkers();

    std::vector<std::thread> workers;

    // The loop that the workers execute: the task, and the number of slices.
    // The caller writes both fields only while `open` is false.
    Task task;
    int64_t sliceCount = 0;

    // A worker enters a loop by incrementing `inside` and then checking `open`.
    // The caller leaves a loop by clearing `open` and then waiting until
    // `inside` is zero. So the caller never waits for a worker that has not
    // woken up, and a late worker finds the loop closed. The atomics are on
    // separate cache lines, since all threads use them.
    alignas(64) std::atomic<int64_t> nextSlice{0};
    alignas(64) std::atomic<int> inside{0};
    alignas(64) std::atomic<uint64_t> loopCount{0}; ///< loops started so far
    std::atomic<bool> open{false};
    std::atomic<bool> stopping{false};

    // A thread announces that it sleeps before a last check of its condition,
    // under the lock. A thread that changes the condition checks for sleepers
    // afterwards. So no wakeup is lost.
    std::atomic<int> sleepers{0};
    std::atomic<bool> callerSleeps{false};
    std::mutex sleepMutex;
    std::condition_variable wake, wakeCaller;
  };

  void run(int64_t slices, Task task);
  bool hasWorkers() const;

  std::unique_ptr<Shared> shared;
  /// The fork count of the process that made the pool.
  const uint64_t generation;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_WORKERPOOL_H
