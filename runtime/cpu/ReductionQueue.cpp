// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ReductionQueue.h"

#include "runtime/cpu/DeferredSignals.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <new>
#include <utility>

namespace mpc::runtime {

//===----------------------------------------------------------------------===//
// The queue
//===----------------------------------------------------------------------===//

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

// No exception may leave the thread, and libraries allocate.
Status ReductionQueue::reduce(const PreparedStep &step) {
  try {
    const auto &reduction = std::get<PreparedAllReduce>(step.op);
    Status status = communicator.allReduce(reduction.address, reduction.count,
                                           reduction.type, reduction.kind);
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

//===----------------------------------------------------------------------===//
// Steps that use the memory of reductions
//===----------------------------------------------------------------------===//

namespace {
/// The addresses in [begin, end).
struct AddressRange {
  const std::byte *begin, *end;

  bool meets(const AddressRange &other) const {
    return begin < other.end && other.begin < end;
  }
};

/// Collects the addresses that a step reads or writes, over all iterations of
/// loops.
class StepAddresses {
public:
  StepAddresses(const Function &function, const std::vector<void *> &buffers)
      : function(function), buffers(buffers) {}

  std::vector<AddressRange> find(const Step &step) {
    found.clear();
    add(step);
    return found;
  }

private:
  void add(const Step &step);

  const Function &function;
  const std::vector<void *> &buffers;
  std::vector<AddressRange> found;
  /// The bytes by which loops around the step move a buffer: at most towards
  /// lower addresses (negative or 0), and towards higher addresses.
  std::map<size_t, std::pair<int64_t, int64_t>> moved;
};
} // namespace

void StepAddresses::add(const Step &step) {
  for (size_t index : listBuffers(step)) {
    const auto *begin = static_cast<const std::byte *>(buffers[index]);
    const auto way = moved.find(index);
    const auto [low, high] =
        way == moved.end() ? std::pair<int64_t, int64_t>() : way->second;
    found.push_back(
        {begin + low, begin + function.buffers[index].bytes + high});
  }
  if (const auto *conditional = std::get_if<IfStep>(&step.op)) {
    for (const Step &inner : conditional->then)
      add(inner);
    for (const Step &inner : conditional->otherwise)
      add(inner);
  }
  if (const auto *loop = std::get_if<ForStep>(&step.op)) {
    const auto outside = moved;
    for (const MovingBuffer &moving : loop->moving) {
      const int64_t way = (loop->count - 1) * moving.bytes;
      (way < 0 ? moved[moving.buffer].first : moved[moving.buffer].second) +=
          way;
    }
    for (const Step &inner : loop->steps)
      add(inner);
    moved = outside;
  }
}

void findReductionsBefore(const Function &function,
                          const std::vector<void *> &buffers,
                          std::vector<PreparedStep> &steps) {
  assert(steps.size() == function.steps.size() && "a prepared step per step");
  StepAddresses addresses(function, buffers);
  std::vector<AddressRange> reduced;
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::vector<AddressRange> used = addresses.find(function.steps[i]);
    // Reductions run in order, so they do not wait for one another.
    if (std::holds_alternative<AllReduceStep>(function.steps[i].op)) {
      reduced.push_back(used.front());
      continue;
    }
    // The last reduction that shares memory with the step.
    for (size_t count = reduced.size(); count > 0; --count)
      if (std::any_of(used.begin(), used.end(), [&](const AddressRange &range) {
            return range.meets(reduced[count - 1]);
          })) {
        steps[i].reductionsBefore = count;
        break;
      }
  }
}

} // namespace mpc::runtime
