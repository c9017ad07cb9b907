// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Threads.h"

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

Status onThreads(int64_t count, int64_t threads,
                 const std::function<Status(int64_t)> &work) {
  std::atomic<int64_t> next{0};
  // Each worker notes its first failure, and the least number of all is the one
  // to tell.
  const int64_t workers = std::min(threads, count);
  std::vector<std::pair<int64_t, Status>> failures(size_t(workers),
                                                   {count, Status()});
  const auto run = [&](int64_t worker) {
    for (int64_t i; (i = next++) < count;) {
      Status status;
      try {
        status = work(i);
      } catch (const std::bad_alloc &) {
        status =
            Status(StatusCode::IO, "out of memory; try a smaller --batch-size");
      }
      if (status.ok())
        continue;
      failures[size_t(worker)] = {i, std::move(status)};
      return;
    }
  };
  // The calling thread works, too.
  std::vector<std::thread> others;
  try {
    for (int64_t i = 1; i < workers; ++i)
      others.emplace_back(run, i);
  } catch (const std::system_error &) {
    // Those that there are do it all.
  }
  if (workers > 0)
    run(0);
  for (std::thread &thread : others)
    thread.join();
  const auto first = std::min_element(
      failures.begin(), failures.end(),
      [](const auto &a, const auto &b) { return a.first < b.first; });
  return first == failures.end() ? Status() : first->second;
}

Status onRows(int64_t rows, int64_t rowBytes,
              const std::function<Status(int64_t begin, int64_t end)> &work) {
  // To start a thread takes as long as copying some 100 KB. Eight copy as fast
  // as memory is.
  constexpr int64_t kBytesOfThread = 1 << 20, kMostThreads = 8;
  const int64_t threads =
      std::min({rows * rowBytes / kBytesOfThread, kMostThreads, countCores()});
  if (threads <= 1)
    return work(0, rows);
  // Four pieces for each, as not all threads are equally fast.
  const int64_t pieces = std::min(rows, 4 * threads);
  return onThreads(pieces, threads, [&](int64_t piece) {
    return work(rows * piece / pieces, rows * (piece + 1) / pieces);
  });
}

} // namespace mpc::runtime::train
