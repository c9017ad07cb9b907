// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/Threads.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

int64_t countCores() {
  return std::max(1u, std::thread::hardware_concurrency());
}

namespace {
/// The first failure of a worker. A flag records lack of memory, since building
/// a message needs memory. An exception that left the thread would end the
/// process.
struct Failure {
  int64_t number;
  Status status;
  bool isShortOfMemory = false;
};
} // namespace

Status onThreads(int64_t count, int64_t threads,
                 const std::function<Status(int64_t)> &work) {
  std::atomic<int64_t> next{0};
  // Each worker records its first failure. The result is the failure with the
  // smallest number.
  const int64_t workers = std::min(threads, count);
  std::vector<Failure> failures(size_t(workers), {count, Status()});
  const auto run = [&](int64_t worker) {
    Failure &failure = failures[size_t(worker)];
    for (int64_t i; failure.number == count && (i = next++) < count;) {
      try {
        failure.status = work(i);
      } catch (const std::bad_alloc &) {
        failure.isShortOfMemory = true;
      }
      if (failure.isShortOfMemory || !failure.status.ok())
        failure.number = i;
    }
  };
  // The calling thread is worker 0, so start one thread less.
  std::vector<std::thread> others;
  others.reserve(size_t(std::max<int64_t>(workers, 1) - 1));
  try {
    for (int64_t i = 1; i < workers; ++i)
      others.emplace_back(run, i);
  } catch (const std::system_error &) {
    // If a thread cannot be started, the other threads do all the work.
  } catch (const std::bad_alloc &) {
    // Continue, since the threads that did start must be joined.
  }
  if (workers > 0)
    run(0);
  for (std::thread &thread : others)
    thread.join();
  const auto first = std::min_element(
      failures.begin(), failures.end(),
      [](const auto &a, const auto &b) { return a.number < b.number; });
  if (first == failures.end())
    return Status();
  return first->isShortOfMemory
             ? Status(StatusCode::IO,
                      "out of memory; try a smaller --batch-size")
             : first->status;
}

Status onRows(int64_t rows, int64_t rowBytes,
              const std::function<Status(int64_t begin, int64_t end)> &work) {
  // Starting a thread takes as long as copying some 100 KB. Eight threads copy
  // as fast as the memory allows.
  constexpr int64_t kBytesOfThread = 1 << 20, kMostThreads = 8;
  const int64_t threads =
      std::min({rows * rowBytes / kBytesOfThread, kMostThreads, countCores()});
  if (threads <= 1)
    return work(0, rows);
  // Some threads are faster than others, so give each four pieces on average.
  const int64_t pieces = std::min(rows, 4 * threads);
  return onThreads(pieces, threads, [&](int64_t piece) {
    return work(rows * piece / pieces, rows * (piece + 1) / pieces);
  });
}

} // namespace mpc::runtime::train
