// Tests Gloo with real ranks, which meet as those of torchrun do.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/GlooCommunicator.h"
#include "runtime/distributed/RankChannel.h"
#include "test/runtime/distributed/FreePort.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace mpc::runtime;

namespace {

struct RankOutcome {
  int code = -1;    ///< the exit code; 128 and the number of a signal
  std::string text; ///< of stdout and stderr
};

/// The processes of a run.
class RankProcesses {
public:
  /// Starts rank 0 to `count - 1`, but for the rank `absent`.
  RankProcesses(int count, const std::vector<std::string> &arguments,
                int absent = -1) {
    const int port = findFreeMasterPort();
    for (int rank = 0; rank < count; ++rank)
      if (rank != absent)
        start(rank, count, port, arguments);
  }
  ~RankProcesses() {
    for (size_t i = 0; i < processes.size(); ++i)
      if (processes[i].id > 0) {
        kill(static_cast<int>(i), SIGKILL);
        finish(static_cast<int>(i));
      }
  }

  void kill(int index, int signal) {
    ::kill(processes[static_cast<size_t>(index)].id, signal);
  }

  /// Returns the outcome of a process when it has ended.
  RankOutcome finish(int index) {
    Process &process = processes[static_cast<size_t>(index)];
    RankOutcome outcome;
    char block[4096];
    for (ssize_t size; (size = read(process.pipe, block, sizeof(block))) > 0;)
      outcome.text.append(block, static_cast<size_t>(size));
    close(process.pipe);
    int status = 0;
    waitpid(process.id, &status, 0);
    process.id = 0;
    outcome.code =
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
  }

  /// Returns the outcomes of all processes, in order.
  std::vector<RankOutcome> finish() {
    std::vector<RankOutcome> outcomes;
    for (size_t i = 0; i < processes.size(); ++i)
      outcomes.push_back(finish(static_cast<int>(i)));
    return outcomes;
  }

private:
  struct Process {
    pid_t id;
    int pipe;
  };

  void start(int rank, int count, int port,
             const std::vector<std::string> &arguments) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t id = fork();
    ASSERT_GE(id, 0);
    if (id > 0) {
      close(ends[1]);
      processes.push_back({id, ends[0]});
      return;
    }
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(count).c_str(), 1);
    setenv("MASTER_ADDR", "localhost", 1);
    setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
    std::vector<char *> words = {const_cast<char *>(MPC_TEST_MPI_RANKS)};
    for (const std::string &argument : arguments)
      words.push_back(const_cast<char *>(argument.c_str()));
    words.push_back(nullptr);
    execv(words[0], words.data());
    _exit(127);
  }

  std::vector<Process> processes;
};

/// The parameter is the interface of the network that carries the data; empty
/// for shared memory.
class GlooRanks : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    // A machine without libgloo-dev has no library.
    if (!MPC_TEST_HAS_GLOO)
      GTEST_SKIP() << "mpc was built without Gloo";
    const StatusOr<std::string> library = findGlooLibrary();
    ASSERT_TRUE(library.ok()) << library.status().message();
    if (!usesSharedMemory())
      setenv("GLOO_SOCKET_IFNAME", GetParam(), 1);
  }
  void TearDown() override { unsetenv("GLOO_SOCKET_IFNAME"); }

  static bool usesSharedMemory() { return !*GetParam(); }
};

bool contains(const RankOutcome &outcome, const std::string &text) {
  return outcome.text.find(text) != std::string::npos;
}

} // namespace

TEST_P(GlooRanks, allRanksGetTheSameBitsInEveryRun) {
  for (int count : {2, 3, 4}) {
    std::set<std::string> lines;
    for (int run = 0; run < 2; ++run)
      for (const RankOutcome &outcome :
           RankProcesses(count, {"sum"}).finish()) {
        EXPECT_EQ(outcome.code, 0) << outcome.text;
        lines.insert(outcome.text);
      }
    EXPECT_EQ(lines.size(), 1u);
    EXPECT_NE(lines.begin()->find("by gloo"), std::string::npos);
  }
}

TEST_P(GlooRanks, broadcastsFromTheLastRank) {
  for (int count : {2, 3, 4})
    for (const RankOutcome &outcome :
         RankProcesses(count, {"broadcast"}).finish())
      EXPECT_EQ(outcome.code, 0) << outcome.text;
}

TEST_P(GlooRanks, aLateRankIsAnErrorThatNamesTheRank) {
  RankProcesses run(3, {"late", "500"});
  for (int rank : {0, 2}) {
    const RankOutcome outcome = run.finish(rank);
    EXPECT_EQ(outcome.code, 9);
    EXPECT_TRUE(contains(outcome, "waited 0.5 s in all_reduce of 1200004 "
                                  "bytes for rank 1"))
        << outcome.text;
  }
}

TEST_P(GlooRanks, anAbsentRankIsAnErrorThatNamesTheRank) {
  const auto outcomes = RankProcesses(3, {"sum", "700"}, 1).finish();
  ASSERT_EQ(outcomes.size(), 2u);
  for (const RankOutcome &outcome : outcomes) {
    EXPECT_EQ(outcome.code, 9);
    EXPECT_TRUE(contains(outcome, "rank 1 of 3 did not come within 0.7 s"))
        << outcome.text;
  }
}

TEST_P(GlooRanks, anAbsentFirstRankIsAnErrorThatNamesTheAddress) {
  const auto outcomes = RankProcesses(2, {"sum", "700"}, 0).finish();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].code, 9);
  EXPECT_TRUE(contains(outcomes[0], "rank 1 of 2 cannot reach rank 0 at "
                                    "MASTER_ADDR='localhost'"))
      << outcomes[0].text;
}

TEST_P(GlooRanks, abortEndsAllRanksWithTheReason) {
  for (const RankOutcome &outcome : RankProcesses(3, {"abort"}).finish()) {
    EXPECT_EQ(outcome.code, int(StatusCode::Numeric));
    EXPECT_TRUE(contains(outcome, "failed: the loss is not finite"))
        << outcome.text;
  }
}

/// Kills the rank `lost` of an endless run.
static void expectThatAllEnd(int count, int lost) {
  RankProcesses run(count, {"endless", "60000"});
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  const auto start = std::chrono::steady_clock::now();
  run.kill(lost, SIGKILL);
  const auto outcomes = run.finish();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  for (int rank = 0; rank < count; ++rank) {
    const RankOutcome &outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_EQ(outcome.code, rank == lost ? 128 + SIGKILL : 9);
    if (rank != lost) {
      EXPECT_TRUE(contains(outcome, "failed: rank " + std::to_string(lost) +
                                        " has ended"))
          << outcome.text;
    }
  }
}

TEST_P(GlooRanks, aKilledRankEndsTheOthersAtOnce) {
  for (int lost : {0, 1, 2})
    expectThatAllEnd(3, lost);
}

// Without the channel's news, Gloo would miss one of six such losses: those in
// the middle of a message.
TEST_P(GlooRanks, theOnlyOtherRankMayDieInTheMiddleOfAMessage) {
  for (int i = 0; i < 6; ++i)
    expectThatAllEnd(2, 1);
}

TEST_P(GlooRanks, aRankThatEndsWellInTheMiddleIsAFailure) {
  const auto outcomes = RankProcesses(3, {"quit"}).finish();
  for (int rank : {0, 2}) {
    const RankOutcome &outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_EQ(outcome.code, 9);
    EXPECT_TRUE(contains(outcome, "failed: rank 1 has ended")) << outcome.text;
  }
}

TEST_P(GlooRanks, anUnknownInterfaceIsAnError) {
  setenv("GLOO_SOCKET_IFNAME", "nonesuch0", 1);
  for (const RankOutcome &outcome : RankProcesses(2, {"sum"}).finish()) {
    EXPECT_EQ(outcome.code, 9);
    EXPECT_TRUE(contains(outcome, "GLOO_SOCKET_IFNAME='nonesuch0'"))
        << outcome.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, GlooRanks, ::testing::Values(""));
INSTANTIATE_TEST_SUITE_P(Network, GlooRanks, ::testing::Values("lo"));

TEST(GlooLibrary, aMissingLibraryIsAnErrorWithThePackage) {
  setenv("MPC_GLOO_LIBRARY", "libmpc-unheard-of.so", 1);
  const StatusOr<std::string> library = findGlooLibrary();
  unsetenv("MPC_GLOO_LIBRARY");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().getCode(), StatusCode::Rank);
  EXPECT_NE(library.status().message().find("libgloo-dev"), std::string::npos);
}

TEST(GlooLibrary, anotherLibraryIsAnError) {
  setenv("MPC_GLOO_LIBRARY", "libm.so.6", 1);
  const StatusOr<std::string> library = findGlooLibrary();
  unsetenv("MPC_GLOO_LIBRARY");
  ASSERT_FALSE(library.ok());
  EXPECT_NE(library.status().message().find("another version"),
            std::string::npos);
}

TEST(ChooseAddress, ranksOfOneMachineKeepTheLoopbackAddress) {
  EXPECT_EQ(*chooseAddress({"127.0.0.1", "127.0.0.1"}, 1), "127.0.0.1");
}

TEST(ChooseAddress, neighboursOfRankZeroTakeItsOuterAddress) {
  const std::vector<std::string> addresses = {"10.0.0.1", "127.0.0.1",
                                              "10.0.0.2"};
  EXPECT_EQ(*chooseAddress(addresses, 0), "10.0.0.1");
  EXPECT_EQ(*chooseAddress(addresses, 1), "10.0.0.1");
  EXPECT_EQ(*chooseAddress(addresses, 2), "10.0.0.2");
}

TEST(ChooseAddress, addressesOfTwoFamiliesAreAnError) {
  const StatusOr<std::string> address =
      chooseAddress({"10.0.0.1", "10.0.0.2", "fd00::3"}, 1);
  ASSERT_FALSE(address.ok());
  EXPECT_NE(address.status().message().find("rank 2 has fd00::3"),
            std::string::npos);
}
