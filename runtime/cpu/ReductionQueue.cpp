// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ReductionQueue.h"

#include "runtime/cpu/DeferredSignals.h"

#include <cassert>
#include <new>
#include <utility>

namespace mpc::runtime {

ReductionQueue::ReductionQueue(Communicator &communicator)
    : communicator(communicator) {
  // The new thread inherits the blocked signals, so signals of the process go
  // to other threads.
  DeferredSignals deferred;
  thread = std::thread([this] { work(); });
}

ReductionQueue::~ReductionQueue() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    assert(steps.empty() && "a run ends with finish");
    isClosed = true;
  }
  added.notify_one();
  thread.join();
}

void ReductionQueue::push(const PreparedStep &step) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    steps.push_back(&step);
  }
  added.notify_one();
}

Status ReductionQueue::waitFor(size_t count) {
  std::unique_lock<std::mutex> lock(mutex);
  assert(count <= steps.size() && "steps are added before they are awaited");
  ended.wait(lock, [&] { return numEnded >= count || !failure.ok(); });
  return failure;
}

Status ReductionQueue::finish(bool drops) {
  std::unique_lock<std::mutex> lock(mutex);
  if (drops)
    steps.resize(numEnded + (isBusy ? 1 : 0));
  ended.wait(lock, [&] {
    return !isBusy && (numEnded == steps.size() || !failure.ok());
  });
  steps.clear();
  numEnded = 0;
  return std::exchange(failure, Status());
}

Status ReductionQueue::exchange(const PreparedStep &step) {
  if (const auto *all = std::get_if<PreparedAllReduce>(&step.op))
    return all->run(communicator);
  if (const auto *scattered = std::get_if<PreparedReduceScatter>(&step.op))
    return communicator.reduceToOwners(scattered->parts, scattered->type,
                                       scattered->kind);
  return communicator.gatherFromOwners(
      std::get<PreparedAllGather>(step.op).parts);
}

// No exception may leave the thread, and libraries allocate.
Status ReductionQueue::reduce(const PreparedStep &step) {
  try {
    Status status = exchange(step);
    return status.ok() ? status
                       : Status(status.getCode(),
                                "'" + step.name + "': " + status.message());
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::IO, "out of memory");
  }
}

void ReductionQueue::work() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    added.wait(lock, [&] {
      return isClosed || (numEnded < steps.size() && failure.ok());
    });
    if (isClosed)
      return;
    const PreparedStep &step = *steps[numEnded];
    isBusy = true;
    lock.unlock();
    Status status = reduce(step);
    lock.lock();
    isBusy = false;
    ++numEnded;
    failure = status;
    ended.notify_all();
  }
}

} // namespace mpc::runtime
