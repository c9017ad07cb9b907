// Joining groups of ops, against a search for paths that is slow and plain.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Analysis/KernelOrder.h"

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
// A block of additions; each reads two values made before it.
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

// Groups as one number per op, and whether joining two closes a cycle.
class PlainGroups {
public:
  explicit PlainGroups(const Graph &graph) : graph(graph) {
    for (unsigned i = 0; i < graph.ops.size(); ++i) {
      number[graph.ops[i]] = i;
      groups.push_back(i);
    }
  }

  bool tryJoin(unsigned a, unsigned b) {
    std::vector<unsigned> joined = groups;
    for (unsigned &group : joined)
      if (group == groups[b])
        group = groups[a];
    if (hasCycle(joined))
      return false;
    groups = joined;
    return true;
  }

private:
  // Takes away groups that nothing left depends on until none is left or all
  // are depended on.
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

TEST(KernelOrder, AgreesWithASearchForCycles) {
  std::mt19937 random(7);
  unsigned joins = 0, refusals = 0;
  for (unsigned round = 0; round < 40; ++round) {
    Graph graph;
    auto pick = [&](unsigned below) { return random() % below; };
    auto operand = [&](unsigned op) {
      return op == 0 || pick(8) == 0
                 ? graph.argument()
                 : graph.value(op - 1 - pick(std::min(op, 6u)));
    };
    for (unsigned op = 0; op < 24; ++op) {
      Value x = operand(op), y = operand(op);
      graph.add(x, y);
    }
    KernelOrder order(*graph.block);
    PlainGroups plain(graph);
    for (unsigned attempt = 0; attempt < 60; ++attempt) {
      unsigned a = pick(24), b = pick(24);
      unsigned groupA = order.getGroup(graph.ops[a]);
      unsigned groupB = order.getGroup(graph.ops[b]);
      if (groupA == groupB)
        continue;
      bool joined = plain.tryJoin(a, b);
      ASSERT_EQ(order.tryJoin(groupA, groupB), joined);
      ++(joined ? joins : refusals);
    }
  }
  EXPECT_GT(joins, 100u);
  EXPECT_GT(refusals, 100u);
}
