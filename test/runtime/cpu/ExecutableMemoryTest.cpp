// Tests that the message names the policy that forbids executable memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/OneDNN.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mpc::runtime;

TEST(ExecutableMemory, IsAllowedHere) {
  EXPECT_TRUE(checkExecutableMemory().ok());
}

// The policy is permanent for a process, so the test forks a child.
TEST(ExecutableMemory, IsAnErrorWhereAPolicyForbidsIt) {
  constexpr int kSetMDWE = 65, kSkipped = 77;
  // A process that has not allocated executable memory yet: allowed memory is
  // not requested again.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        if (prctl(kSetMDWE, 1, 0, 0, 0) != 0)
          _exit(kSkipped); // Linux before 6.3
        const Status status = catchDNNL("prepare", [] {});
        const bool isSaid = status.getCode() == StatusCode::IO &&
                            status.message().find("MemoryDenyWriteExecute") !=
                                std::string::npos;
        _exit(isSaid ? 0 : 1);
      },
      [](int status) {
        return WIFEXITED(status) &&
               (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kSkipped);
      },
      "");
}
