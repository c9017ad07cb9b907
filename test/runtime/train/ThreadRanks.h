// Runs the ranks of a distributed run as threads of one process.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_TRAIN_THREADRANKS_H
#define MPC_TEST_RUNTIME_TRAIN_THREADRANKS_H

#include "runtime/Communicator.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// What the threads share.
struct ThreadGroup {
  explicit ThreadGroup(int size) : size(size), parts(size_t(size)) {}

  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  int64_t round = 0;
  std::vector<std::string> parts; ///< the bytes of each rank in this round
  std::vector<std::string> last;  ///< those of the last complete round
  Status broken;                  ///< the failure that ended the group
};

/// A rank that is a thread. Every call exchanges the bytes of all ranks.
class ThreadCommunicator : public Communicator {
public:
  ThreadCommunicator(ThreadGroup &group, int rank)
      : Communicator(rank, group.size), group(group) {}

  std::string_view backend() const override { return "threads"; }
  Status allReduce(void *data, size_t count, DType type, Reduce kind) override;
  Status reduceScatter(void *, size_t, DType, Reduce) override {
    return Status(StatusCode::Unsupported, "threads do not scatter");
  }
  Status allGather(void *data, size_t bytes) override;
  Status broadcast(void *data, size_t bytes, int root) override;
  Status barrier() override { return exchange("").status(); }
  void abort(const Status &why) override;
  size_t bytesSent() const override { return sent; }

private:
  StatusOr<std::vector<std::string>> exchange(const std::string &own);

  ThreadGroup &group;
  size_t sent = 0;
};

/// Calls `body` for each of `count` ranks, each in its own thread.
void runRanks(int count,
              const std::function<void(Communicator &communicator)> &body);

} // namespace mpc::runtime::train

#endif // MPC_TEST_RUNTIME_TRAIN_THREADRANKS_H
