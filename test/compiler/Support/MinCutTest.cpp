// Tests minimum cuts of random graphs against all cuts.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/MinCut.h"

#include "llvm/ADT/bit.h"

#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

using namespace mpc;

namespace {
struct Edge {
  unsigned from, to;
  int64_t capacity;
};

/// The cost of having the nodes of `sinkSide`, one bit each, on the sink's
/// side.
int64_t costOf(unsigned sinkSide, const std::vector<Edge> &edges) {
  int64_t cost = 0;
  for (const Edge &edge : edges)
    if (!(sinkSide >> edge.from & 1) && sinkSide >> edge.to & 1)
      cost += edge.capacity;
  return cost;
}
} // namespace

TEST(MinCut, CutsTheNarrowestPlace) {
  MinCut cut;
  unsigned a = cut.addNode(), b = cut.addNode();
  cut.addEdge(MinCut::kSource, a, 5);
  cut.addEdge(a, b, 2);
  cut.addEdge(b, MinCut::kSink, 4);
  EXPECT_EQ(cut.solve(), 2);
  EXPECT_FALSE(cut.isWithSink(a));
  EXPECT_TRUE(cut.isWithSink(b));
}

TEST(MinCut, LeavesAsManyNodesAsPossibleWithTheSource) {
  MinCut cut;
  unsigned a = cut.addNode(), alone = cut.addNode();
  cut.addEdge(MinCut::kSource, a, 3);
  cut.addEdge(a, MinCut::kSink, 3);
  EXPECT_EQ(cut.solve(), 3);
  EXPECT_FALSE(cut.isWithSink(a));
  EXPECT_FALSE(cut.isWithSink(alone));
}

TEST(MinCut, SaysThatThereIsNone) {
  MinCut cut;
  unsigned a = cut.addNode();
  cut.addEdge(MinCut::kSource, a, MinCut::kInfinite);
  cut.addEdge(a, MinCut::kSink, MinCut::kInfinite);
  EXPECT_EQ(cut.solve(), std::nullopt);
}

TEST(MinCut, IsTheBestOfAllCuts) {
  constexpr unsigned kNodes = 9, kGraphs = 300;
  std::mt19937 random(1);
  for (unsigned graph = 0; graph < kGraphs; ++graph) {
    MinCut cut;
    for (unsigned i = 2; i < kNodes; ++i)
      cut.addNode();
    std::vector<Edge> edges;
    for (unsigned i = 0; i < 22; ++i) {
      Edge edge = {unsigned(random() % kNodes), unsigned(random() % kNodes),
                   int64_t(random() % 8)};
      edges.push_back(edge);
      cut.addEdge(edge.from, edge.to, edge.capacity);
    }
    constexpr unsigned kSource = 1u << MinCut::kSource;
    constexpr unsigned kSink = 1u << MinCut::kSink;
    int64_t best = std::numeric_limits<int64_t>::max();
    unsigned fewest = kNodes;
    for (unsigned side = 0; side < 1u << kNodes; ++side) {
      if (side & kSource || !(side & kSink))
        continue;
      int64_t cost = costOf(side, edges);
      unsigned count = llvm::popcount(side);
      if (cost < best || (cost == best && count < fewest))
        fewest = count;
      best = std::min(best, cost);
    }
    EXPECT_EQ(cut.solve(), best);
    unsigned found = 0;
    for (unsigned node = 0; node < kNodes; ++node)
      found |= unsigned(cut.isWithSink(node)) << node;
    EXPECT_EQ(costOf(found, edges), best);
    EXPECT_EQ(unsigned(llvm::popcount(found)), fewest);
  }
}
