// Tests greedy placement on hand-made graphs.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Placement.h"

#include <gtest/gtest.h>

using namespace mpc;
using amp::Reason;

namespace {
// Builds a problem from nodes in order and edges between them.
struct Graph {
  unsigned add(PrecisionClass precisionClass,
               llvm::ArrayRef<unsigned> producers = {}) {
    unsigned self = problem.nodes.size();
    problem.nodes.emplace_back();
    problem.nodes.back().precisionClass = precisionClass;
    problem.nodes.back().deniesReaders = precisionClass == PrecisionClass::Deny;
    for (unsigned producer : producers) {
      problem.nodes[self].producers.push_back(producer);
      problem.nodes[producer].consumers.push_back(self);
    }
    return self;
  }

  // Adds an edge through a value that stays fp32.
  void connectWide(unsigned producer, unsigned consumer) {
    problem.nodes[producer].wideConsumers.push_back(consumer);
    problem.nodes[consumer].wideProducers.push_back(producer);
  }

  std::vector<Placement> place() const {
    return createGreedyPlacement()->place(problem);
  }

  PlacementProblem problem;
};

using Path = llvm::SmallVector<unsigned, 4>;
} // namespace

TEST(GreedyPlacement, AllowedOpsAreLow) {
  Graph graph;
  unsigned a = graph.add(PrecisionClass::Allow);
  auto placements = graph.place();
  EXPECT_TRUE(placements[a].low);
  EXPECT_EQ(placements[a].reason, Reason::AllowList);
}

TEST(GreedyPlacement, InferOpsBetweenAllowedOnesAreLow) {
  Graph graph;
  unsigned a = graph.add(PrecisionClass::Allow);
  unsigned infer = graph.add(PrecisionClass::Infer, a);
  unsigned b = graph.add(PrecisionClass::Allow, infer);
  auto placements = graph.place();
  EXPECT_TRUE(placements[infer].low);
  EXPECT_EQ(placements[infer].reason, Reason::BetweenLow);
  EXPECT_EQ(placements[infer].path.nodes, (Path{a, infer, b}));
}

TEST(GreedyPlacement, InferOpsAtTheTailStayHigh) {
  Graph graph;
  unsigned a = graph.add(PrecisionClass::Allow);
  unsigned infer = graph.add(PrecisionClass::Infer, a);
  auto placements = graph.place();
  EXPECT_FALSE(placements[infer].low);
  EXPECT_EQ(placements[infer].reason, Reason::NotBetweenLow);
}

TEST(GreedyPlacement, LowTypesDoNotCrossWideValues) {
  Graph graph;
  unsigned a = graph.add(PrecisionClass::Allow);
  unsigned sum = graph.add(PrecisionClass::Infer, a);
  unsigned infer = graph.add(PrecisionClass::Infer);
  graph.connectWide(sum, infer);
  graph.add(PrecisionClass::Allow, infer);
  auto placements = graph.place();
  EXPECT_EQ(placements[sum].reason, Reason::NotBetweenLow);
  EXPECT_EQ(placements[infer].reason, Reason::NotBetweenLow);
}

TEST(GreedyPlacement, DenialCrossesWideValues) {
  Graph graph;
  unsigned sum = graph.add(PrecisionClass::Deny);
  unsigned infer = graph.add(PrecisionClass::Infer);
  graph.connectWide(sum, infer);
  graph.add(PrecisionClass::Allow, infer);
  auto placements = graph.place();
  EXPECT_EQ(placements[infer].reason, Reason::AfterDenied);
  EXPECT_EQ(placements[infer].path.nodes, (Path{sum, infer}));
}

TEST(GreedyPlacement, PathsAreFoundOnRequestOnly) {
  Graph graph;
  unsigned a = graph.add(PrecisionClass::Allow);
  unsigned infer = graph.add(PrecisionClass::Infer, a);
  graph.add(PrecisionClass::Allow, infer);
  auto placements =
      createGreedyPlacement(/*findsPaths=*/false)->place(graph.problem);
  EXPECT_TRUE(placements[infer].low);
  EXPECT_EQ(placements[infer].path.nodes, (Path{infer}));
}

TEST(GreedyPlacement, DenialReachesThroughInferAndClearOps) {
  Graph graph;
  unsigned deny = graph.add(PrecisionClass::Deny);
  unsigned clear = graph.add(PrecisionClass::Clear, deny);
  unsigned infer = graph.add(PrecisionClass::Infer, clear);
  unsigned b = graph.add(PrecisionClass::Allow, infer);
  auto placements = graph.place();
  EXPECT_EQ(placements[clear].reason, Reason::AfterDenied);
  EXPECT_EQ(placements[infer].reason, Reason::AfterDenied);
  EXPECT_EQ(placements[infer].path.nodes, (Path{deny, clear, infer}));
  EXPECT_TRUE(placements[b].low);
}

TEST(GreedyPlacement, ClearOpsBeforeAnAllowedOneEscapeDenial) {
  Graph graph;
  unsigned deny = graph.add(PrecisionClass::Deny);
  unsigned clear = graph.add(PrecisionClass::Clear, deny);
  graph.add(PrecisionClass::Allow, clear);
  auto placements = graph.place();
  EXPECT_TRUE(placements[clear].low);
  EXPECT_EQ(placements[clear].reason, Reason::FollowsNeighbours);
}

TEST(GreedyPlacement, ClearOpsReadInFP32StayHigh) {
  Graph graph;
  unsigned clear = graph.add(PrecisionClass::Clear);
  graph.problem.nodes[clear].readInFP32 = true;
  graph.add(PrecisionClass::Allow, clear);
  EXPECT_FALSE(graph.place()[clear].low);
}

TEST(GreedyPlacement, PinsWinOverLists) {
  Graph graph;
  unsigned a = graph.add(PrecisionClass::Allow);
  graph.problem.nodes[a].pin = PlacementNode::Pin::High;
  graph.problem.nodes[a].pinReason = Reason::KeepFP32;
  unsigned deny = graph.add(PrecisionClass::Deny);
  graph.problem.nodes[deny].pin = PlacementNode::Pin::Low;
  graph.problem.nodes[deny].pinReason = Reason::ForceLow;
  auto placements = graph.place();
  EXPECT_FALSE(placements[a].low);
  EXPECT_EQ(placements[a].reason, Reason::KeepFP32);
  EXPECT_TRUE(placements[deny].low);
  EXPECT_EQ(placements[deny].reason, Reason::ForceLow);
}

// Keeping one op in fp32 does not affect the ops that read it.
TEST(GreedyPlacement, KeptOpsDoNotDeny) {
  Graph graph;
  unsigned a = graph.add(PrecisionClass::Allow);
  unsigned kept = graph.add(PrecisionClass::Infer, a);
  graph.problem.nodes[kept].pin = PlacementNode::Pin::High;
  graph.problem.nodes[kept].pinReason = Reason::KeepFP32;
  unsigned infer = graph.add(PrecisionClass::Infer, {a, kept});
  graph.add(PrecisionClass::Allow, infer);
  EXPECT_TRUE(graph.place()[infer].low);
}

// A node's path to either end of a chain has as many nodes as the chain.
TEST(GreedyPlacement, LongPathsKeepTheirEnds) {
  for (unsigned length : {14u, 15u, 16u, 30u, 3000u}) {
    Graph graph;
    unsigned last = graph.add(PrecisionClass::Allow);
    for (unsigned i = 0; i < length; ++i)
      last = graph.add(PrecisionClass::Infer, last);
    last = graph.add(PrecisionClass::Allow, last);
    size_t most = 2 * PlacementPath::kEnd;
    for (const Placement &placement : graph.place()) {
      if (placement.reason != Reason::BetweenLow)
        continue;
      const PlacementPath &path = placement.path;
      ASSERT_EQ(path.nodes.size() + path.omitted, last + 1);
      ASSERT_EQ(path.nodes.size(), std::min<size_t>(last + 1, most));
      // Checks from the front up to the gap, and from the back down to it.
      for (size_t i = 0; i < path.nodes.size(); ++i)
        ASSERT_EQ(path.nodes[i],
                  i < PlacementPath::kEnd ? i : i + path.omitted);
    }
  }
}

TEST(GreedyPlacement, LongDenialsKeepTheirEnds) {
  Graph graph;
  unsigned last = graph.add(PrecisionClass::Deny);
  for (unsigned i = 1; i < 100; ++i)
    last = graph.add(PrecisionClass::Infer, last);
  const PlacementPath path = graph.place()[last].path;
  EXPECT_EQ(path.nodes,
            (Path{0, 1, 2, 3, 4, 5, 6, 7, 92, 93, 94, 95, 96, 97, 98, 99}));
  EXPECT_EQ(path.omitted, 84u);
}
