// Runs exchanges with the ranks of a distributed run on a thread of its own,
// while the workers run the steps of a function.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_REDUCTIONQUEUE_H
#define MPC_RUNTIME_CPU_REDUCTIONQUEUE_H

#include "runtime/Communicator.h"
#include "runtime/cpu/PreparedSteps.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace mpc::runtime {

/// The exchanges of one run of a function, in order: all_reduce, reduce_scatter
/// and all_gather steps. The thread sleeps
/// while there is none, since a rank may have a single core.
class ReductionQueue {
public:
  /// Starts the thread. Throws std::system_error if the thread cannot start.
  explicit ReductionQueue(Communicator &communicator);
  ~ReductionQueue();
  ReductionQueue(const ReductionQueue &) = delete;
  ReductionQueue &operator=(const ReductionQueue &) = delete;

  /// Adds `step`, an exchange, which must live until `finish`.
  void push(const PreparedStep &step);

  /// Waits until the first `count` steps since the last `finish` have ended.
  /// Returns the failure of a step, with the step's name.
  Status waitFor(size_t count);

  /// Ends a run: waits for all steps, or, with `drops`, for a step in progress
  /// only. Returns the failure of a step, and forgets all steps.
  Status finish(bool drops);

private:
  void work();
  Status exchange(const PreparedStep &step);
  Status reduce(const PreparedStep &step);

  Communicator &communicator;
  std::mutex mutex;
  std::condition_variable added, ended;
  std::vector<const PreparedStep *> steps; ///< of this run
  size_t numEnded = 0;                     ///< of `steps`
  bool isBusy = false, isClosed = false;
  Status failure; ///< after a failure, no step begins
  std::thread thread;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_REDUCTIONQUEUE_H
