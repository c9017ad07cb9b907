// Tests plans and sessions whose state several ranks divide among them.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/OwnedPlan.h"
#include "test/runtime/PlanCases.h"
#include "test/runtime/distributed/ThreadCommunicator.h"

#include <gtest/gtest.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

const std::string kOwnedStep = "/functions/step/steps";

std::vector<float> valuesOf(const StatusOr<Tensor> &value) {
  EXPECT_TRUE(value.ok()) << value.status().message();
  if (!value.ok())
    return {};
  const auto *data = reinterpret_cast<const float *>(value->bytes.data());
  return std::vector<float>(data, data + numElements(value->shape));
}

std::string refusalOf(const std::string &pointer, const Json &value) {
  return refusal(ownedPlan(), pointer, value);
}

void expectRefused(const std::string &pointer, const Json &value,
                   const std::string &why) {
  const std::string message = refusalOf(pointer, value);
  EXPECT_NE(message.find(why), std::string::npos) << pointer << ": " << message;
}

} // namespace

TEST(Owners, PlansMayHaveOwners) {
  const Status status = check(ownedPlan());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Owners, OnlyOwnersUseShardedVariables) {
  const char *other = "a variable that only another rank holds";
  expectRefused(kOwnedStep + "/3/owner", 2, other);
  Json shared = copyStep(1, 4); // a to v.m
  expectRefused(kOwnedStep + "/3", shared, other);
  // In a list of steps too, where only the outermost step has an owner.
  expectRefused(kOwnedStep + "/3",
                {{"op", "for"},
                 {"name", "loop"},
                 {"count", 1},
                 {"moving", Json::array()},
                 {"steps", {copyStep(1, 4)}}},
                other);
  expectRefused(kOwnedStep + "/3",
                {{"op", "for"},
                 {"name", "loop"},
                 {"count", 1},
                 {"moving", Json::array()},
                 {"steps", {withOwner(copyStep(1, 2), 0)}}},
                "a step of a list has an owner of its own");
  expectRefused("/functions/step/outputs",
                {{{"name", "m"}, {"role", "output"}, {"buffer", 4}}},
                "an output is a variable that only one rank holds");
}

TEST(Owners, OwnersAreStateVariables) {
  expectRefused("/state/1/owner", 4, "its owner is no state variable");
  expectRefused(kOwnedStep + "/3/owner", 4, "its owner is no state variable");
  expectRefused(kOwnedStep + "/7/parts/0/owner", 4, "does not exist");
  expectRefused(kOwnedStep + "/7/parts/0/buffer", 99, "does not exist");
}

TEST(Owners, AllRanksExchange) {
  expectRefused(kOwnedStep + "/7/owner", 0, "on one rank only");
  expectRefused(kOwnedStep + "/7/parts", Json::array(), "exchanges nothing");
  expectRefused(kOwnedStep + "/7/parts/0/buffer", 0, "an input or a constant");
  expectRefused(kOwnedStep + "/2/kind", "median", "median");
}

TEST(Owners, EachParameterHasAnOwner) {
  const ArtifactBuilder builder = ownedPlan();
  StatusOr<Plan> plan =
      parsePlan(builder.plan.dump(), static_cast<int64_t>(builder.data.size()));
  ASSERT_TRUE(plan.ok());
  const auto dealt = [&](int ranks) {
    const StateShares shares(*plan, 0, ranks);
    std::vector<int> owners;
    for (size_t i = 0; i < plan->state.size(); ++i)
      owners.push_back(shares.ownerOf(i));
    return owners;
  };
  EXPECT_EQ(dealt(1), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(dealt(2), (std::vector<int>{0, 0, 1, 0}));
  // The bytes of v balance those of two other parameters.
  plan->state[1].bytes *= 8;
  plan->state.push_back(plan->state[2]);
  plan->state.push_back(plan->state[3]);
  plan->state.back().owner = 4;
  EXPECT_EQ(dealt(2), (std::vector<int>{0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(StateShares(*plan, 0, 2).bytes(), 16 * 3 + 16 * 8);
  EXPECT_EQ(StateShares(*plan, 1, 2).bytes(), 16 * 3 + 16 * 2);
}

TEST(Owners, OneRankOwnsAll) {
  auto session = makeSession(ownedPlan());
  EXPECT_FALSE(session->shares().isSharded());
  ASSERT_TRUE(session->setInput("step", "x", floats({4}, {1, 2, 3, 4})).ok());
  ASSERT_TRUE(session->run("step").ok());
  EXPECT_EQ(valuesOf(session->state("w.m")), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(valuesOf(session->state("v")), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Owners, RanksDivideTheState) {
  const size_t whole = makeSession(ownedPlan())->memoryBytes();
  runRanks(3, [&](Communicator &communicator) {
    SessionOptions options;
    options.threads = 1;
    options.communicator = &communicator;
    auto created = Session::create(ownedPlan().open(), options);
    ASSERT_TRUE(created.ok()) << created.status().message();
    Session &session = **created;
    const StateShares &shares = session.shares();
    const std::vector<StateVariable> &state = session.artifact().plan().state;
    EXPECT_TRUE(shares.isSharded());
    const int rank = communicator.rank();
    EXPECT_EQ(shares.ownerOf(state[1]), std::optional(0));
    EXPECT_EQ(shares.ownerOf(state[3]), std::optional(1));
    EXPECT_EQ(shares.ownerOf(state[2]), std::nullopt);
    const size_t moments = rank < 2 ? 1 : 0;
    EXPECT_EQ(session.memoryBytes() + (2 - moments) * kOwnedSize * 4, whole);

    // All ranks derive together.
    ASSERT_TRUE(session.derive().ok());
    EXPECT_EQ(valuesOf(session.state("v")), (std::vector<float>{5, 5, 5, 5}));
    const float own = static_cast<float>(3 * rank);
    ASSERT_TRUE(session
                    .setInput("step", "x",
                              floats({4}, {own, own + 1, own + 2, own + 3}))
                    .ok());
    ASSERT_TRUE(session.run("step").ok());
    const std::vector<float> mean = {3, 4, 5, 6};
    EXPECT_EQ(valuesOf(session.state("v")), mean);
    EXPECT_EQ(valuesOf(session.state("w")), mean);
    const StatusOr<Tensor> moment = session.state("w.m");
    if (rank == 1) {
      EXPECT_EQ(valuesOf(moment), mean);
    } else {
      EXPECT_EQ(moment.status().getCode(), StatusCode::Usage);
      EXPECT_EQ(moment.status().message(),
                "state variable 'w.m' is on rank 1, this is rank " +
                    std::to_string(rank));
    }
  });
}
