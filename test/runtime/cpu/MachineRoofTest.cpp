// Tests that a roof of a busy machine says so, and that measuring again only
// raises rates.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/MachineRoof.h"

#include "test/runtime/ArtifactBuilder.h"

#include <atomic>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <thread>
#include <unistd.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

static MachineRoof makeRoof(double product, double cache, double memory,
                            bool isBusy) {
  MachineRoof roof;
  roof.products = {product, product, product};
  roof.bandwidths = {{1024, cache}, {4096, memory}};
  roof.isBusy = isBusy;
  return roof;
}

TEST(MachineRoof, TheLargerOfEachRateCounts) {
  const MachineRoof joined =
      joinRoofs(makeRoof(1, 8, 3, true), makeRoof(2, 5, 4, false));
  EXPECT_EQ(joined.products.f32, 2);
  EXPECT_EQ(joined.products.bf16, 2);
  EXPECT_EQ(joined.products.f16, 2);
  EXPECT_EQ(joined.bandwidths[0].rate, 8);
  EXPECT_EQ(joined.bandwidths[1].rate, 4);
  EXPECT_FALSE(joined.isBusy);
  EXPECT_TRUE(
      joinRoofs(makeRoof(1, 1, 1, true), makeRoof(1, 1, 1, true)).isBusy);
}

TEST(MachineRoof, NoticesOthersOnTheCores) {
  const int schedule = open("/proc/self/schedstat", O_RDONLY);
  if (schedule < 0)
    GTEST_SKIP() << "the system does not tell how long threads wait";
  close(schedule);
  // Four threads want the core that the measurement has.
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i)
    others.emplace_back([&] {
      while (!stop)
        ;
    });
  StatusOr<MachineRoof> roof = measureRoof(testFeatures(), 1);
  stop = true;
  for (std::thread &other : others)
    other.join();
  sched_setaffinity(0, sizeof(before), &before);
  ASSERT_TRUE(roof.ok()) << roof.status().message();
  EXPECT_TRUE(roof->isBusy);
  EXPECT_GT(roof->products.f32, 0);
}
