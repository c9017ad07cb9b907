// Connects the threads of one process as if they were ranks, for tests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_DISTRIBUTED_THREADCOMMUNICATOR_H
#define MPC_TEST_RUNTIME_DISTRIBUTED_THREADCOMMUNICATOR_H

#include "runtime/distributed/HostCommunicator.h"

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mpc::runtime {

/// The meeting point of the threads. All calls of the ranks pass `meet` twice:
/// when each rank has published its address, and when each rank has copied.
class ThreadRanks {
public:
  explicit ThreadRanks(int size) : addresses(static_cast<size_t>(size)) {}

  /// Publishes the rank's `address`, and returns once all ranks are here. A
  /// Rank error after `abort`.
  Status meet(int rank, const std::byte *address) {
    std::unique_lock<std::mutex> lock(mutex);
    addresses[static_cast<size_t>(rank)] = address;
    const size_t round = rounds;
    if (++present == addresses.size()) {
      present = 0;
      ++rounds;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return rounds != round || !failure.ok(); });
    return rounds != round ? Status() : failure;
  }

  void abort(const Status &why) {
    std::lock_guard<std::mutex> lock(mutex);
    if (failure.ok())
      failure = Status(StatusCode::Rank, "a rank failed: " + why.message());
    changed.notify_all();
  }

  const std::byte *addressOf(size_t rank) const { return addresses[rank]; }
  size_t size() const { return addresses.size(); }

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<const std::byte *> addresses;
  size_t present = 0, rounds = 0;
  Status failure;
};

/// One rank. Use each object on one thread at a time.
class ThreadCommunicator : public HostCommunicator {
public:
  ThreadCommunicator(int rank, std::shared_ptr<ThreadRanks> ranks)
      : HostCommunicator(rank, static_cast<int>(ranks->size())),
        ranks(std::move(ranks)) {}

  /// Returns the communicators of `size` ranks, in order.
  static std::vector<std::unique_ptr<ThreadCommunicator>> create(int size) {
    auto ranks = std::make_shared<ThreadRanks>(size);
    std::vector<std::unique_ptr<ThreadCommunicator>> all;
    for (int rank = 0; rank < size; ++rank)
      all.push_back(std::make_unique<ThreadCommunicator>(rank, ranks));
    return all;
  }

  std::string_view backend() const override { return "threads"; }
  void abort(const Status &why) override { ranks->abort(why); }

protected:
  Status exchangeBlocks(const std::byte *from, std::byte *to,
                        size_t bytes) override {
    return share(from, [&](size_t part, const std::byte *theirs) {
      std::memcpy(to + part * bytes,
                  theirs + static_cast<size_t>(rank()) * bytes, bytes);
    });
  }
  Status gatherBlocks(std::byte *data, size_t bytes) override {
    return share(data, [&](size_t part, const std::byte *theirs) {
      if (theirs != data)
        std::memcpy(data + part * bytes, theirs + part * bytes, bytes);
    });
  }
  Status broadcastBlock(std::byte *data, size_t bytes, int root) override {
    return share(data, [&](size_t part, const std::byte *theirs) {
      if (part == static_cast<size_t>(root) && theirs != data)
        std::memcpy(data, theirs, bytes);
    });
  }
  Status waitForAll() override { return ranks->meet(rank(), nullptr); }

private:
  template <typename Copy>
  Status share(const std::byte *address, Copy copy) {
    if (Status status = ranks->meet(rank(), address); !status.ok())
      return status;
    for (size_t part = 0; part < ranks->size(); ++part)
      copy(part, ranks->addressOf(part));
    return ranks->meet(rank(), address);
  }

  std::shared_ptr<ThreadRanks> ranks;
};

/// Calls `body(communicator)` on a thread for each of `size` ranks, and waits
/// for all.
template <typename Body>
void runRanks(int size, Body body) {
  auto communicators = ThreadCommunicator::create(size);
  std::vector<std::thread> threads;
  for (auto &communicator : communicators)
    threads.emplace_back([&body, &communicator] { body(*communicator); });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace mpc::runtime

#endif // MPC_TEST_RUNTIME_DISTRIBUTED_THREADCOMMUNICATOR_H
