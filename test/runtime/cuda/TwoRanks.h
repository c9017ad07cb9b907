// Two ranks for tests over the emulated libraries: each is a process with a GPU
// of its own.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_CUDA_TWORANKS_H
#define MPC_TEST_RUNTIME_CUDA_TWORANKS_H

#include "runtime/Communicator.h"

#include <functional>
#include <map>
#include <string>

namespace mpc::runtime::test {

/// Connects two forked processes by shared memory. A rank that waits for longer
/// than a minute gets a Rank error.
class ForkedCommunicator : public Communicator {
public:
  struct Shared;
  ForkedCommunicator(Shared *shared, int rank)
      : Communicator(rank, 2), shared(shared) {}

  std::string_view backend() const override { return "test"; }
  Status allReduce(void *data, size_t count, DType type, Reduce kind) override;
  Status reduceScatter(void *data, size_t count, DType type,
                       Reduce kind) override;
  Status allGather(void *data, size_t bytes) override;
  Status broadcast(void *data, size_t bytes, int root) override;
  Status barrier() override;
  void abort(const Status &why) override {}
  void noteLoss() override { ++losses; }
  size_t bytesSent() const override { return bytesSentBeside(); }

  int losses = 0; ///< calls of noteLoss

private:
  Shared *shared;
  uint64_t meetings = 0;
};

/// Runs `body` in two forked processes over the emulated libraries. Their
/// failed expectations count as the caller's.
void onTwoRanks(const std::map<std::string, std::string> &environment,
                const std::function<void(ForkedCommunicator &)> &body);

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_CUDA_TWORANKS_H
