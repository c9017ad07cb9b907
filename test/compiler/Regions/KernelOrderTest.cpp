// Tests joining groups of ops against a slow, simple path search.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/KernelOrder.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace mpc;

namespace {
// A block of additions. Each reads two earlier values.
class Graph {
public:
  Graph() : builder(&context) {
    context.loadDialect<MPCDialect, func::FuncDialect>();
    type = RankedTensorType::get({4}, builder.getF32Type());
    module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToStart(module->getBody());
    function = func::FuncOp::create(builder, builder.getUnknownLoc(), "f",
                                    builder.getFunctionType({type}, {}));
    block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
  }

  Operation *add(Value x, Value y) {
    return ops.emplace_back(
        mpc::AddOp::create(builder, builder.getUnknownLoc(), type, x, y));
  }
  Value argument() { return block->getArgument(0); }
  Value value(unsigned op) { return ops[op]->getResult(0); }

  MLIRContext context;
  OpBuilder builder;
  Type type;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  Block *block;
  std::vector<Operation *> ops;
};

// Groups as one number per op. Tells if joining two groups closes a cycle.
class PlainGroups {
public:
  explicit PlainGroups(const Graph &graph) : graph(graph) {
    for (unsigned i = 0; i < graph.ops.size(); ++i) {
      number[graph.ops[i]] = i;
      groups.push_back(i);
    }
  }

  bool tryJoin(Operation *a, Operation *b) {
    std::vector<unsigned> joined = groups;
    for (unsigned &group : joined)
      if (group == groups[number[b]])
        group = groups[number[a]];
    if (hasCycle(joined))
      return false;
    groups = joined;
    return true;
  }

  bool areJoined(Operation *a, Operation *b) {
    return groups[number[a]] == groups[number[b]];
  }

private:
  // Removes groups without remaining users until none is left, or every group
  // has one.
  bool hasCycle(const std::vector<unsigned> &of) {
    std::set<unsigned> left(of.begin(), of.end());
    for (bool changed = true; changed;) {
      changed = false;
      std::set<unsigned> needed;
      for (unsigned i = 0; i < of.size(); ++i)
        for (Value operand : graph.ops[i]->getOperands())
          if (Operation *producer = operand.getDefiningOp()) {
            unsigned from = of[number[producer]];
            if (from != of[i] && left.count(of[i]))
              needed.insert(from);
          }
      for (auto it = left.begin(); it != left.end();)
        if (!needed.count(*it)) {
          it = left.erase(it);
          changed = true;
        } else {
          ++it;
        }
    }
    return !left.empty();
  }

  const Graph &graph;
  std::map<Operation *, unsigned> number;
  std::vector<unsigned> groups;
};
} // namespace

TEST(KernelOrder, JoinsNeighbours) {
  Graph graph;
  Operation *a = graph.add(graph.argument(), graph.argument());
  Operation *b = graph.add(graph.value(0), graph.argument());
  KernelOrder order(*graph.block);
  EXPECT_TRUE(order.tryJoin(order.getGroup(b), order.getGroup(a)));
  EXPECT_EQ(order.getGroup(a), order.getGroup(b));
}

TEST(KernelOrder, RefusesWhatAPathLeavesAndEntersAgain) {
  Graph graph;
  Operation *a = graph.add(graph.argument(), graph.argument());
  graph.add(graph.value(0), graph.argument());
  Operation *c = graph.add(graph.value(1), graph.value(0));
  KernelOrder order(*graph.block);
  EXPECT_FALSE(order.tryJoin(order.getGroup(a), order.getGroup(c)));
  EXPECT_NE(order.getGroup(a), order.getGroup(c));
}

// Tries to join random ops of random graphs, in which an op reads others up to
// `reach` before it.
static void compareWithSearch(unsigned size, unsigned reach) {
  std::mt19937 random(7);
  unsigned joins = 0, refusals = 0;
  for (unsigned round = 0; round < 40; ++round) {
    Graph graph;
    auto pick = [&](unsigned below) { return random() % below; };
    auto operand = [&](unsigned op) {
      return op == 0 || pick(8) == 0
                 ? graph.argument()
                 : graph.value(op - 1 - pick(std::min(op, reach)));
    };
    for (unsigned op = 0; op < size; ++op) {
      Value x = operand(op), y = operand(op);
      graph.add(x, y);
    }
    KernelOrder order(*graph.block);
    PlainGroups plain(graph);
    for (unsigned attempt = 0; attempt < 60; ++attempt) {
      Operation *a = graph.ops[pick(size)], *b = graph.ops[pick(size)];
      if (plain.areJoined(a, b))
        continue;
      bool joined = order.tryJoin(order.getGroup(a), order.getGroup(b));
      ASSERT_EQ(plain.tryJoin(a, b), joined);
      ++(joined ? joins : refusals);
      for (Operation *x : graph.ops)
        for (Operation *y : {a, b})
          ASSERT_EQ(order.getGroup(x) == order.getGroup(y),
                    plain.areJoined(x, y));
    }
  }
  EXPECT_GT(joins, 100u);
  EXPECT_GT(refusals, 100u);
}

TEST(KernelOrder, AgreesWithASearchForCycles) { compareWithSearch(24, 6); }

// With few edges, most paths leave the tree.
TEST(KernelOrder, AgreesWithASearchInWideGraphs) { compareWithSearch(60, 50); }

// One op has 500 users, so that the search does not visit the whole tree.
TEST(KernelOrder, FindsPathsAmongManyUsers) {
  constexpr unsigned kUsers = 500;
  Graph graph;
  Operation *first = graph.add(graph.argument(), graph.argument());
  for (unsigned i = 0; i < kUsers; ++i)
    graph.add(graph.value(0), graph.argument());
  Operation *last = graph.add(graph.value(kUsers), graph.value(0));
  KernelOrder order(*graph.block);
  for (unsigned i = 1; i < kUsers; ++i)
    ASSERT_TRUE(
        order.tryJoin(order.getGroup(first), order.getGroup(graph.ops[i])));
  EXPECT_FALSE(order.tryJoin(order.getGroup(first), order.getGroup(last)));
  EXPECT_TRUE(
      order.tryJoin(order.getGroup(graph.ops[kUsers]), order.getGroup(last)));
  EXPECT_TRUE(order.tryJoin(order.getGroup(first), order.getGroup(last)));
}
