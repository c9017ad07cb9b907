// Tests functions that reduce over the GPUs of two ranks.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/OwnedPlan.h"
#include "test/runtime/cuda/Emulated.h"
#include "test/runtime/cuda/TwoRanks.h"

#include <chrono>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// A trainee like `countingTrainee`: `step` adds the mean of the input over the
/// ranks to `w`. Later steps run beside the reduction: `own` is the input.
ArtifactBuilder averagingTrainee() {
  ArtifactBuilder builder = countingTrainee();
  FunctionBuilder step = builder.function("average");
  const size_t x = step.input("x", DType::F32, {5}), w = step.state("w");
  const size_t zero = step.arena(DType::F32, {5});
  const size_t mean = step.arena(DType::F32, {5});
  const size_t own = step.arena(DType::F32, {5});
  auto add = [](size_t a, size_t b, size_t to) {
    return Json{{"op", "launch"},     {"name", "add"}, {"kernel", "add"},
                {"args", {a, b, to}}, {"extent", 5},   {"grain", 2},
                {"threads", 32}};
  };
  const size_t constant = step.constant(floats({5}, Floats(5, 0)));
  step.step({{"op", "copy"}, {"src", constant}, {"dst", zero}});
  step.step(add(x, zero, mean));
  step.step({{"op", "all_reduce"},
             {"name", "gradients"},
             {"buffer", mean},
             {"kind", "mean"}});
  step.step(add(x, zero, own));
  step.step(add(w, mean, w));
  // The memory of the reduction is used again.
  step.step({{"op", "copy"}, {"src", own}, {"dst", mean}});
  step.output("w", w);
  step.output("own", own);
  step.output("last", mean);
  return builder;
}

std::unique_ptr<Session> openRank(const ArtifactBuilder &builder,
                                  Communicator &ranks) {
  SessionOptions options;
  options.device = "cuda:" + std::to_string(ranks.rank());
  options.communicator = &ranks;
  options.rankTimeout = std::chrono::seconds(20);
  auto session = Session::create(builder.open(), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(*session) : nullptr;
}

/// Runs `average` with the inputs 1 and 2, 2 and 3, ... of the ranks.
void expectMeans(Session &session, int rank, int runs) {
  float sum = 0;
  for (int i = 0; i < runs; ++i) {
    const auto own = static_cast<float>(1 + i + rank);
    ASSERT_TRUE(
        session.setInput("average", "x", floats({5}, Floats(5, own))).ok());
    Status status = session.run("average");
    ASSERT_TRUE(status.ok()) << status.message();
    sum += static_cast<float>(i) + 1.5F;
    EXPECT_EQ(values(session.output("average", "w")),
              (Floats{1 + sum, 2 + sum, 3 + sum, 4 + sum, 5 + sum}));
    EXPECT_EQ(values(session.output("average", "own")), Floats(5, own));
    EXPECT_EQ(values(session.output("average", "last")), Floats(5, own));
  }
}

/// A run step by step, a recorded run, and runs of the graph.
TEST(CUDARanks, ReduceInTheGraph) {
  std::string log = newLogFile();
  onTwoRanks({{"MPC_EMULATOR_LOG", log}}, [](ForkedCommunicator &ranks) {
    auto session = openRank(averagingTrainee(), ranks);
    ASSERT_TRUE(session);
    expectMeans(*session, ranks.rank(), 6);
    // A ring of two sends half of the 20 bytes twice.
    EXPECT_EQ(ranks.bytesSent(), 6u * 20u);
    session.reset();
    EXPECT_EQ(ranks.losses, 0);
  });
  const std::vector<std::string> calls = readLog(log);
  // Two ranks, two calls each: one step by step, one in the capture.
  EXPECT_EQ(countCalls(calls, "ncclAllReduce"), 4u);
  EXPECT_EQ(countCalls(calls, "cuGraphLaunch"), 2u * 5u);
  EXPECT_EQ(countCalls(calls, "ncclCommDestroy"), 2u);
  EXPECT_EQ(countFaults(calls), 0u);
}

/// The trainee of OwnedPlan.h on a GPU.
ArtifactBuilder ownedTrainee() {
  ArtifactBuilder builder = ownedPlan();
  builder.forGPU("sm_80", countingTrainee().ptx);
  return builder;
}

/// Runs `step` of `ownedTrainee`, and expects the mean of the ranks' inputs in
/// all state that the rank holds.
void expectOwnersUpdate(Session &session, int rank, int runs) {
  for (int i = 0; i < runs; ++i) {
    const auto own = static_cast<float>(i + 2 * rank);
    ASSERT_TRUE(
        session.setInput("step", "x", floats({4}, {own, own + 1, 0, 1})).ok());
    Status status = session.run("step");
    ASSERT_TRUE(status.ok()) << status.message();
    const auto mean = static_cast<float>(i + 1);
    const Floats expected = {mean, mean + 1, 0, 1};
    EXPECT_EQ(values(session.state("v")), expected);
    EXPECT_EQ(values(session.state("w")), expected);
    EXPECT_EQ(values(session.state(rank == 0 ? "v.m" : "w.m")), expected);
  }
}

/// Each moment lies on the GPU of its owner, and only the owner runs its steps.
TEST(CUDARanks, DivideTheOptimizer) {
  std::string log = newLogFile();
  onTwoRanks({{"MPC_EMULATOR_LOG", log}}, [](ForkedCommunicator &ranks) {
    auto session = openRank(ownedTrainee(), ranks);
    ASSERT_TRUE(session);
    EXPECT_TRUE(session->shares().isSharded());
    const char *others = ranks.isFirst() ? "w.m" : "v.m";
    expectMessage(session->state(others).status(), StatusCode::Usage,
                  {others, "is on rank"});
    ASSERT_TRUE(session->derive().ok());
    EXPECT_EQ(values(session->state("v")), Floats(4, 5));
    // The owner of v has sent its 16 bytes.
    const size_t derived = ranks.isFirst() ? 16 : 0;
    EXPECT_EQ(ranks.bytesSent(), derived);
    expectOwnersUpdate(*session, ranks.rank(), 5);
    // A gradient to the other rank, and a weight from this one.
    EXPECT_EQ(ranks.bytesSent(), derived + 5u * 32u);
    session.reset();
    EXPECT_EQ(ranks.losses, 0);
  });
  const std::vector<std::string> calls = readLog(log);
  // Two ranks, two calls for each part: one step by step, one in the capture.
  EXPECT_EQ(countCalls(calls, "ncclReduce"), 2u * 2u * 2u);
  EXPECT_EQ(countCalls(calls, "ncclBroadcast"), 2u * (2u * 2u + 1u));
  EXPECT_EQ(countCalls(calls, "ncclGroupEnd"), 2u * (2u * 2u + 1u));
  EXPECT_EQ(countCalls(calls, "ncclAllReduce"), 0u);
  EXPECT_EQ(countCalls(calls, "cuGraphLaunch"), 2u * 4u);
  EXPECT_EQ(countFaults(calls), 0u);
}

TEST(CUDARanks, DivideTheOptimizerStepByStep) {
  for (const char *variable : {"MPC_CUDA_GRAPH", "MPC_CUDA_SYNCHRONIZE"})
    onTwoRanks({{variable, variable[9] == 'G' ? "0" : "1"}},
               [](ForkedCommunicator &ranks) {
                 auto session = openRank(ownedTrainee(), ranks);
                 ASSERT_TRUE(session);
                 expectOwnersUpdate(*session, ranks.rank(), 3);
               });
}

TEST(CUDARanks, MeasureTheStepsOfOwners) {
  onTwoRanks({}, [](ForkedCommunicator &ranks) {
    auto session = openRank(ownedTrainee(), ranks);
    ASSERT_TRUE(session);
    expectOwnersUpdate(*session, ranks.rank(), 1);
    std::vector<double> seconds;
    for (int i = 0; i < 3; ++i) {
      Status status = session->runTimed("step", seconds);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(seconds.size(), 8u);
      // The other rank's update of v or of w.
      EXPECT_EQ(seconds[ranks.isFirst() ? 5 : 3], 0);
    }
  });
}

/// A single rank owns everything, and may exchange with itself.
TEST(CUDARanks, OneRankOwnsTheOptimizer) {
  for (const char *trial : {"0", "1"}) {
    std::string log = newLogFile();
    emulated({{"MPC_EMULATOR_LOG", log}, {"MPC_CUDA_NCCL", trial}}, [] {
      auto session = openOnGPU(ownedTrainee());
      ASSERT_TRUE(session);
      EXPECT_FALSE(session->shares().isSharded());
      for (float x : {1.0F, 2.0F, 3.0F}) {
        ASSERT_TRUE(
            session->setInput("step", "x", floats({4}, Floats(4, x))).ok());
        ASSERT_TRUE(session->run("step").ok());
        EXPECT_EQ(values(session->state("w")), Floats(4, x));
        EXPECT_EQ(values(session->state("v.m")), Floats(4, x));
      }
    });
    EXPECT_EQ(countCalls(readLog(log), "ncclReduce"), *trial == '1' ? 4u : 0u);
    EXPECT_EQ(countFaults(readLog(log)), 0u);
  }
}

TEST(CUDARanks, ReduceStepByStep) {
  for (const char *variable : {"MPC_CUDA_GRAPH", "MPC_CUDA_SYNCHRONIZE"})
    onTwoRanks({{variable, variable[9] == 'G' ? "0" : "1"}},
               [](ForkedCommunicator &ranks) {
                 auto session = openRank(averagingTrainee(), ranks);
                 ASSERT_TRUE(session);
                 expectMeans(*session, ranks.rank(), 3);
               });
}

TEST(CUDARanks, MeasureTheirSteps) {
  onTwoRanks({}, [](ForkedCommunicator &ranks) {
    auto session = openRank(averagingTrainee(), ranks);
    ASSERT_TRUE(session);
    expectMeans(*session, ranks.rank(), 1);
    std::vector<double> seconds;
    for (int i = 0; i < 3; ++i) {
      Status status = session->runTimed("average", seconds);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(seconds.size(), 6u);
    }
  });
}

TEST(CUDARanks, OneRankLoadsNoLibrary) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}}, [] {
    auto session = openOnGPU(averagingTrainee());
    ASSERT_TRUE(session);
    ASSERT_TRUE(
        session->setInput("average", "x", floats({5}, Floats(5, 1))).ok());
    ASSERT_TRUE(session->run("average").ok());
    EXPECT_EQ(values(session->state("w")), (Floats{2, 3, 4, 5, 6}));
  });
  EXPECT_EQ(countCalls(readLog(log), "ncclGetVersion"), 0u);
}

TEST(CUDARanks, OneRankReducesOnDemand) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}, {"MPC_CUDA_NCCL", "1"}}, [] {
    auto session = openOnGPU(averagingTrainee());
    ASSERT_TRUE(session);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(
          session->setInput("average", "x", floats({5}, Floats(5, 1))).ok());
      ASSERT_TRUE(session->run("average").ok());
    }
    EXPECT_EQ(values(session->state("w")), (Floats{4, 5, 6, 7, 8}));
  });
  EXPECT_EQ(countCalls(readLog(log), "ncclAllReduce"), 2u);
  EXPECT_EQ(countCalls(readLog(log), "ncclCommDestroy"), 1u);
}

TEST(CUDARanks, AllRanksTellWhyOneCannotStart) {
  onTwoRanks({}, [](ForkedCommunicator &ranks) {
    SessionOptions options;
    options.device = ranks.isFirst() ? "cuda:0" : "cuda:7";
    options.communicator = &ranks;
    expectMessage(Session::create(averagingTrainee().open(), options).status(),
                  StatusCode::Device, {"rank 1: there is no GPU 7"});
  });
}

TEST(CUDARanks, TwoRanksCannotShareAGPU) {
  onTwoRanks({}, [](ForkedCommunicator &ranks) {
    SessionOptions options;
    options.device = "cuda:1";
    options.communicator = &ranks;
    expectMessage(Session::create(averagingTrainee().open(), options).status(),
                  StatusCode::Rank, {"cannot connect", "invalid usage"});
  });
}

/// The failure ends the run, also within the graph. Nothing waits for the lost
/// rank.
TEST(CUDARanks, ALostRankEndsTheRun) {
  onTwoRanks({}, [](ForkedCommunicator &ranks) {
    const auto begin = std::chrono::steady_clock::now();
    auto session = openRank(averagingTrainee(), ranks);
    ASSERT_TRUE(session);
    expectMeans(*session, ranks.rank(), 4);
    if (!ranks.isFirst()) {
      std::fflush(nullptr);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    ASSERT_TRUE(session->run("average").ok());
    expectMessage(session->output("average", "w").status(), StatusCode::Rank,
                  {"rank 0 of 2: NCCL cannot exchange data with the ranks",
                   "remote process exited"});
    EXPECT_EQ(session->run("average").getCode(), StatusCode::Rank);
    EXPECT_EQ(ranks.losses, 1);
    session.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::seconds(20));
  });
}

} // namespace
