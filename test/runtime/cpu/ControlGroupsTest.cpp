// Tests the limits of memory, in control groups described by files.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ControlGroups.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <stdlib.h>

using namespace mpc::runtime;
namespace fs = std::filesystem;

namespace {

class ControlGroups : public ::testing::Test {
protected:
  ControlGroups() {
    std::string pattern = testing::TempDir() + "/mpc-groups-XXXXXX";
    root = mkdtemp(pattern.data());
  }
  ~ControlGroups() override { fs::remove_all(root); }

  void write(const std::string &path, const std::string &text) {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text << "\n";
  }

  uint64_t limit() { return findMemoryLimit(root).value_or(0); }

  std::string root;
};

TEST_F(ControlGroups, WithoutGroupsThereIsNoLimit) {
  EXPECT_FALSE(findMemoryLimit(root));
  write("/proc/self/cgroup", "0::/job");
  EXPECT_FALSE(findMemoryLimit(root));
}

TEST_F(ControlGroups, TheLeastLimitOfAGroupAndTheGroupsAroundItHolds) {
  write("/proc/self/cgroup", "0::/user.slice/job");
  write("/sys/fs/cgroup/user.slice/memory.max", "3000");
  write("/sys/fs/cgroup/user.slice/job/memory.max", "max");
  EXPECT_EQ(limit(), 3000u);
  write("/sys/fs/cgroup/user.slice/job/memory.max", "2000");
  EXPECT_EQ(limit(), 2000u);
  write("/sys/fs/cgroup/memory.max", "1000");
  EXPECT_EQ(limit(), 1000u);
}

TEST_F(ControlGroups, Version1HasAFolderForTheController) {
  write("/proc/self/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_FALSE(findMemoryLimit(root));
  write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4096");
  // A limit of another controller does not count.
  write("/sys/fs/cgroup/cpu,cpuacct/box/memory.limit_in_bytes", "1");
  EXPECT_EQ(limit(), 4096u);
}

TEST_F(ControlGroups, AnUnreadableLimitIsNoLimit) {
  write("/proc/self/cgroup", "0::/");
  for (const char *text : {"", "many", "12x", "-1"}) {
    write("/sys/fs/cgroup/memory.max", text);
    EXPECT_FALSE(findMemoryLimit(root)) << text;
  }
}

} // namespace
