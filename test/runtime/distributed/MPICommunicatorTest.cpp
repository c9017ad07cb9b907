// Tests MPI with real ranks. Skipped on machines without mpirun.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Status.h"

#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <sys/wait.h>

namespace {

struct Outcome {
  int code = -1;
  std::string text; ///< of stdout and stderr
};

Outcome runCommand(const std::string &command) {
  Outcome outcome;
  FILE *pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (!pipe)
    return outcome;
  char block[4096];
  while (size_t size = fread(block, 1, sizeof(block), pipe))
    outcome.text.append(block, size);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// Each parameter is a launcher and the arguments that it needs here.
class MPIRanks : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    static std::map<std::string, bool> launches;
    const auto [found, isNew] = launches.try_emplace(GetParam());
    if (isNew)
      found->second = runCommand(found->first + " -n 1 true").code == 0;
    if (!found->second)
      GTEST_SKIP() << "this machine has no " << GetParam();
  }

  static Outcome launch(int ranks, const std::string &arguments) {
    return runCommand("timeout 25 " + std::string(GetParam()) + " -n " +
                      std::to_string(ranks) + " " MPC_TEST_MPI_RANKS " " +
                      arguments);
  }

  /// Like `launch`, without stderr: on some machines, MPI's libraries print
  /// remarks about the hardware.
  static Outcome launchForOutput(int ranks, const std::string &arguments) {
    return launch(ranks, arguments + " 2>/dev/null");
  }
};

} // namespace

TEST_P(MPIRanks, allRanksGetTheSameBitsInEveryRun) {
  for (int ranks : {2, 3, 4}) {
    std::set<std::string> lines;
    for (int run = 0; run < 2; ++run) {
      const Outcome outcome = launchForOutput(ranks, "sum");
      ASSERT_EQ(outcome.code, 0) << outcome.text;
      std::istringstream text(outcome.text);
      int count = 0;
      for (std::string line; std::getline(text, line); ++count)
        lines.insert(line);
      EXPECT_EQ(count, ranks) << outcome.text;
    }
    EXPECT_EQ(lines.size(), 1u);
    EXPECT_NE(lines.begin()->find("by mpi"), std::string::npos);
  }
}

TEST_P(MPIRanks, oneRankLoadsNothing) {
  const Outcome outcome = launchForOutput(1, "sum");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.text, "one rank\n");
}

TEST_P(MPIRanks, aLateRankIsAnError) {
  const Outcome outcome = launch(2, "late 5000");
  EXPECT_EQ(outcome.code, 9) << outcome.text;
  EXPECT_NE(outcome.text.find("failed: rank 0 of 2 waited 5 s in all_reduce "
                              "of 1200004 bytes"),
            std::string::npos)
      << outcome.text;
}

TEST_P(MPIRanks, anAbsentRankIsAnError) {
  const Outcome outcome = launch(2, "absent 500");
  EXPECT_EQ(outcome.code, 9) << outcome.text;
  EXPECT_NE(outcome.text.find("waited 0.5 s for the start of all ranks"),
            std::string::npos)
      << outcome.text;
}

TEST_P(MPIRanks, abortEndsAllRanks) {
  const Outcome outcome = launch(2, "abort");
  EXPECT_EQ(outcome.code, int(mpc::runtime::StatusCode::Numeric))
      << outcome.text;
}

TEST_P(MPIRanks, anUnsuitableLibraryIsAnError) {
  setenv("MPC_MPI_LIBRARY", "libmpc-unheard-of.so", 1);
  const Outcome outcome = launch(2, "sum");
  unsetenv("MPC_MPI_LIBRARY");
  EXPECT_EQ(outcome.code, 9);
  EXPECT_NE(outcome.text.find("install Debian's package"), std::string::npos)
      << outcome.text;
}

INSTANTIATE_TEST_SUITE_P(OpenMPI, MPIRanks,
                         ::testing::Values("mpirun.openmpi --oversubscribe"));
INSTANTIATE_TEST_SUITE_P(MPICH, MPIRanks, ::testing::Values("mpirun.mpich"));
