// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/ThreadRanks.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

namespace mpc::runtime::train {

StatusOr<std::vector<std::string>>
ThreadCommunicator::exchange(const std::string &own) {
  std::unique_lock<std::mutex> lock(group.mutex);
  if (!group.broken.ok())
    return group.broken;
  sent += own.size();
  group.parts[size_t(rank())] = own;
  const int64_t round = group.round;
  if (++group.arrived == size()) {
    group.arrived = 0;
    group.last = group.parts;
    ++group.round;
    group.changed.notify_all();
  } else {
    group.changed.wait(
        lock, [&] { return group.round != round || !group.broken.ok(); });
    if (group.round == round)
      return group.broken;
  }
  return group.last;
}

void ThreadCommunicator::abort(const Status &why) {
  std::lock_guard<std::mutex> lock(group.mutex);
  if (group.broken.ok())
    group.broken = Status(StatusCode::Rank, "rank " + std::to_string(rank()) +
                                                ": " + why.message());
  group.changed.notify_all();
}

Status ThreadCommunicator::allGather(void *data, size_t bytes) {
  char *all = static_cast<char *>(data);
  StatusOr<std::vector<std::string>> parts =
      exchange(std::string(all + size_t(rank()) * bytes, bytes));
  if (!parts.ok())
    return parts.status();
  for (size_t i = 0; i < parts->size(); ++i) {
    EXPECT_EQ((*parts)[i].size(), bytes) << "the ranks make other calls";
    std::memcpy(all + i * bytes, (*parts)[i].data(), bytes);
  }
  return Status();
}

Status ThreadCommunicator::broadcast(void *data, size_t bytes, int root) {
  StatusOr<std::vector<std::string>> parts =
      exchange(std::string(static_cast<char *>(data), bytes));
  if (!parts.ok())
    return parts.status();
  EXPECT_EQ((*parts)[size_t(root)].size(), bytes);
  std::memcpy(data, (*parts)[size_t(root)].data(), bytes);
  return Status();
}

template <typename T>
static void reduce(const std::vector<std::string> &parts, T *values,
                   size_t count, Reduce kind) {
  std::fill(values, values + count, T(0));
  for (const std::string &part : parts) {
    const T *own = reinterpret_cast<const T *>(part.data());
    for (size_t i = 0; i < count; ++i)
      values[i] = kind == Reduce::Max && &part != &parts.front()
                      ? std::max(values[i], own[i])
                      : values[i] + own[i];
  }
  if (kind == Reduce::Mean)
    for (size_t i = 0; i < count; ++i)
      values[i] /= T(parts.size());
}

Status ThreadCommunicator::allReduce(void *data, size_t count, DType type,
                                     Reduce kind) {
  const bool isDouble = type == DType::F64;
  if (!isDouble && type != DType::F32)
    return Status(StatusCode::Unsupported, "threads reduce f32 and f64");
  StatusOr<std::vector<std::string>> parts = exchange(
      std::string(static_cast<char *>(data), count * (isDouble ? 8 : 4)));
  if (!parts.ok())
    return parts.status();
  if (isDouble)
    reduce(*parts, static_cast<double *>(data), count, kind);
  else
    reduce(*parts, static_cast<float *>(data), count, kind);
  return Status();
}

void runRanks(int count,
              const std::function<void(Communicator &communicator)> &body) {
  ThreadGroup group(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&group, &body, rank] {
      ThreadCommunicator communicator(group, rank);
      body(communicator);
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace mpc::runtime::train
