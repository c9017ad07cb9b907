// Tests the worker pool with many short and some long loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/WorkerPool.h"

#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <numeric>

using namespace mpc::runtime;

namespace {

TEST(WorkerPool, RunsEverySliceOnceInManyShortLoops) {
  for (int threads : {1, 2, 4}) {
    WorkerPool pool(threads);
    ASSERT_EQ(pool.size(), threads);
    std::vector<int> counts(64);
    for (int loop = 0; loop < 5000; ++loop) {
      auto slices = static_cast<int64_t>(1 + loop % counts.size());
      std::fill(counts.begin(), counts.end(), 0);
      pool.parallelFor(slices, [&](int64_t slice, int worker) {
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, threads);
        ++counts[static_cast<size_t>(slice)];
      });
      ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), 0), slices);
      ASSERT_EQ(*std::max_element(counts.begin(), counts.end()), 1);
    }
  }
}

TEST(WorkerPool, WorkersTakeNoSignals) {
  WorkerPool pool(2);
  std::atomic<int> arrived{0};
  // Each slice waits for the other, so that both threads check their masks.
  pool.parallelFor(2, [&](int64_t, int worker) {
    ++arrived;
    while (arrived < 2) {
    }
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&blocked, SIGINT), worker != 0);
    EXPECT_EQ(sigismember(&blocked, SIGSEGV), 0);
  });
}

TEST(WorkerPool, WakesWorkersThatSleep) {
  WorkerPool pool(2);
  using Clock = std::chrono::steady_clock;
  for (int loop = 0; loop < 3; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // Each slice waits for the other: the loop ends only if both threads take
    // part.
    std::atomic<int> arrived{0};
    auto deadline = Clock::now() + std::chrono::seconds(20);
    pool.parallelFor(2, [&](int64_t, int) {
      ++arrived;
      while (arrived < 2 && Clock::now() < deadline)
        std::this_thread::yield();
    });
    ASSERT_EQ(arrived, 2);
  }
}

TEST(WorkerPool, LoopsKeepSubnormalsWhateverModeTheCallerIsIn) {
  constexpr unsigned flushAndZero = 0x8040;
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | flushAndZero);
  WorkerPool pool(2);
  std::vector<unsigned> modes(100);
  pool.parallelFor(100, [&](int64_t slice, int) {
    modes[static_cast<size_t>(slice)] = _mm_getcsr() & flushAndZero;
  });
  EXPECT_EQ(_mm_getcsr() & flushAndZero, flushAndZero);
  _mm_setcsr(before);
  for (unsigned mode : modes)
    EXPECT_EQ(mode, 0u);
}

TEST(WorkerPool, NoSlicesIsNoWork) {
  WorkerPool pool(2);
  pool.parallelFor(0, [](int64_t, int) { FAIL(); });
}

} // namespace
