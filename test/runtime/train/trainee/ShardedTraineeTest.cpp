// Tests state that lies on several ranks, over threads.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trainee/ShardedTrainee.h"
#include "test/runtime/OwnedPlan.h"
#include "test/runtime/distributed/ThreadCommunicator.h"

#include <gtest/gtest.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;
using namespace mpc::runtime::train;

namespace {

/// Runs `body(trainee, rank)` on three ranks. Rank 0 owns v, and rank 1 owns w.
template <typename Body>
void runTrainees(Body body) {
  runRanks(3, [&](Communicator &communicator) {
    SessionOptions options;
    options.threads = 1;
    options.communicator = &communicator;
    auto session = Session::create(ownedPlan().open(), options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    auto trainee = makeTrainee(**session);
    ASSERT_TRUE(trainee.ok()) << trainee.status().message();
    body(**trainee, communicator.rank());
  });
}

float firstOf(const StatusOr<Tensor> &value) {
  EXPECT_TRUE(value.ok()) << value.status().message();
  return value.ok() ? *reinterpret_cast<const float *>(value->bytes.data())
                    : -1;
}

} // namespace

TEST(ShardedTrainee, AllRanksReadTogether) {
  runTrainees([](Trainee &trainee, int) {
    EXPECT_TRUE(trainee.isSharded("v.m"));
    EXPECT_FALSE(trainee.isSharded("v"));
    EXPECT_EQ(firstOf(trainee.state("v.m")), 5);
    EXPECT_EQ(firstOf(trainee.state("w.m")), 6);
    EXPECT_TRUE(trainee.setState("w.m", floats({4}, {7, 7, 7, 7})).ok());
    EXPECT_EQ(firstOf(trainee.state("w.m")), 7);
    EXPECT_EQ(*trainee.stateInPlace("v.m"), nullptr);
  });
}

TEST(ShardedTrainee, TheFirstRankLeads) {
  runTrainees([](Trainee &trainee, int rank) {
    int calls = 0;
    const Status status = trainee.lead([&] {
      ++calls;
      if (rank != 0)
        return Status();
      EXPECT_EQ(firstOf(trainee.state("w.m")), 6);
      EXPECT_EQ(trainee.setState("w.m", floats({2}, {1, 1})).getCode(),
                StatusCode::InvalidInput);
      EXPECT_TRUE(trainee.setState("w.m", floats({4}, {8, 8, 8, 8})).ok());
      EXPECT_TRUE(trainee.setState("v.m", floats({4}, {9, 9, 9, 9})).ok());
      EXPECT_EQ(firstOf(trainee.state("w.m")), 8);
      EXPECT_TRUE(trainee.derive().ok());
      return Status(StatusCode::IO, "no space");
    });
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(status.getCode(), rank == 0 ? StatusCode::IO : StatusCode::Done);
    // The ranks are together again.
    EXPECT_EQ(firstOf(trainee.state("v")), 9);
    EXPECT_EQ(firstOf(trainee.state("w.m")), 8);
  });
}

TEST(ShardedTrainee, ResetsAllRanks) {
  runTrainees([](Trainee &trainee, int rank) {
    EXPECT_TRUE(trainee.setState("w.m", floats({4}, {8, 8, 8, 8})).ok());
    EXPECT_TRUE(
        trainee.lead([&] { return rank == 0 ? trainee.reset() : Status(); })
            .ok());
    EXPECT_EQ(firstOf(trainee.state("w.m")), 6);
    EXPECT_EQ(firstOf(trainee.state("v")), 5);
  });
}

TEST(ShardedTrainee, RanksAreAloneAtTheEnd) {
  runTrainees([](Trainee &trainee, int) {
    ASSERT_TRUE(trainee.keepWeights().ok());
    // Moments are no weights.
    EXPECT_EQ(trainee.state("w.m").status().getCode(), StatusCode::Usage);
    EXPECT_EQ(trainee.setState("w.m", floats({4}, {1, 1, 1, 1})).getCode(),
              StatusCode::Usage);
    EXPECT_TRUE(trainee.state("v").ok());
  });
}

TEST(ShardedTrainee, AFailureEndsTheOtherRanks) {
  runRanks(2, [](Communicator &communicator) {
    SessionOptions options;
    options.threads = 1;
    options.communicator = &communicator;
    auto session = Session::create(ownedPlan().open(), options);
    ASSERT_TRUE(session.ok());
    auto trainee = makeTrainee(**session);
    ASSERT_TRUE(trainee.ok());
    if (communicator.rank() == 1) {
      communicator.abort(Status(StatusCode::IO, "out of memory"));
      return;
    }
    const Status status =
        (*trainee)->lead([&] { return (*trainee)->state("w.m").status(); });
    EXPECT_EQ(status.getCode(), StatusCode::Rank);
  });
}
