// Tests the default number of threads, on machines described by files.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Cores.h"
#include "runtime/Device.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <stdlib.h>

using namespace mpc::runtime;
namespace fs = std::filesystem;

namespace {

/// A machine on which CPUs n and n + `cores` share a core.
class Cores : public ::testing::Test {
protected:
  Cores() {
    std::string pattern = testing::TempDir() + "/mpc-cores-XXXXXX";
    root = mkdtemp(pattern.data());
  }
  ~Cores() override { fs::remove_all(root); }

  void write(const std::string &path, const std::string &text) {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text << "\n";
  }

  void makeCores(int cores) {
    for (int cpu = 0; cpu < 2 * cores; ++cpu)
      write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                "/topology/thread_siblings_list",
            std::to_string(cpu % cores) + "," +
                std::to_string(cpu % cores + cores));
  }

  static std::vector<int> firstCPUs(int count) {
    std::vector<int> cpus(static_cast<size_t>(count));
    std::iota(cpus.begin(), cpus.end(), 0);
    return cpus;
  }

  std::string root;
};

TEST_F(Cores, SiblingsCountOnce) {
  makeCores(4);
  EXPECT_EQ(countUsableCores(firstCPUs(8), root), 4);
}

TEST_F(Cores, OnlyThoseOfTheAffinityMaskCount) {
  makeCores(4);
  EXPECT_EQ(countUsableCores({1, 5}, root), 1);
  EXPECT_EQ(countUsableCores({1, 2, 5}, root), 2);
}

TEST_F(Cores, WithoutATopologyEachCPUIsACore) {
  EXPECT_EQ(countUsableCores(firstCPUs(3), root), 3);
  EXPECT_EQ(countUsableCores({}, root), 1);
}

TEST_F(Cores, AQuotaOfVersion2Limits) {
  makeCores(32);
  write("/proc/self/cgroup", "0::/");
  write("/sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(countUsableCores(firstCPUs(64), root), 2);
  write("/sys/fs/cgroup/cpu.max", "150000 100000");
  EXPECT_EQ(countUsableCores(firstCPUs(64), root), 2);
  write("/sys/fs/cgroup/cpu.max", "20000 100000");
  EXPECT_EQ(countUsableCores(firstCPUs(64), root), 1);
  write("/sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(countUsableCores(firstCPUs(64), root), 32);
}

TEST_F(Cores, TheLeastQuotaOfAllGroupsAroundTheProcessHolds) {
  makeCores(32);
  write("/proc/self/cgroup", "0::/user.slice/job/step");
  write("/sys/fs/cgroup/user.slice/cpu.max", "800000 100000");
  write("/sys/fs/cgroup/user.slice/job/cpu.max", "300000 100000");
  write("/sys/fs/cgroup/user.slice/job/step/cpu.max", "max 100000");
  EXPECT_EQ(countUsableCores(firstCPUs(64), root), 3);
}

TEST_F(Cores, AQuotaOfVersion1Limits) {
  makeCores(32);
  write("/proc/self/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n"
                             "3:cpuset:/box");
  write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "400000");
  write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000");
  EXPECT_EQ(countUsableCores(firstCPUs(64), root), 4);
  write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(countUsableCores(firstCPUs(64), root), 32);
  // In a container the path is the host's, but the mount is the container's.
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(countUsableCores(firstCPUs(64), root), 3);
}

TEST_F(Cores, FilesThatSaySomethingElseLimitNothing) {
  makeCores(2);
  write("/proc/self/cgroup", "nonsense\n0:\n0::relative\n0::/");
  for (const char *text : {"", "0 0", "-5 100000", "many", "1e300 1"}) {
    write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(countUsableCores(firstCPUs(4), root), 2) << text;
  }
}

TEST(DivideMachine, GivesEachRankAGPUAndAShareOfTheCores) {
  DeviceOptions options;
  options.device = "cuda";
  options.threads = 3; // chosen by the caller
  divideMachine(1, 2, options);
  EXPECT_EQ(options.device, "cuda:1");
  EXPECT_EQ(options.threads, 3);
  DeviceOptions alone;
  divideMachine(0, 1, alone);
  EXPECT_EQ(alone.device, "cpu");
  EXPECT_EQ(alone.threads, 0);
  DeviceOptions many;
  divideMachine(0, 1000, many);
  EXPECT_EQ(many.device, "cpu");
  // No share is less than a thread. A bound process has its share already.
  EXPECT_LE(many.threads, 1);
}

} // namespace
