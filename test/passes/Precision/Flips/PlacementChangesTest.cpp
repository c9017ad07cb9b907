// Tests placements after changes of pins: the changes are those of a new
// solution, and cost little.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/Flips/PlacementChanges.h"

#include <gtest/gtest.h>

#include <random>

using namespace mpc;
using amp::Reason;
using Pin = PlacementNode::Pin;

// Connects two nodes, once.
static void connect(PlacementProblem &problem, unsigned producer,
                    unsigned consumer, bool isWide) {
  PlacementNode &from = problem.nodes[producer], &to = problem.nodes[consumer];
  if (producer == consumer ||
      llvm::is_contained(from.wideConsumers, consumer) ||
      llvm::is_contained(from.consumers, consumer))
    return;
  if (isWide) {
    from.wideConsumers.push_back(consumer);
    to.wideProducers.push_back(producer);
  } else {
    from.consumers.push_back(consumer);
    to.producers.push_back(producer);
  }
}

// Returns a problem with random classes, pins and edges. Some edges go back, as
// in a loop.
static PlacementProblem makeRandomProblem(std::mt19937 &random) {
  auto draw = [&](unsigned below) { return unsigned(random() % below); };
  auto isOneOf = [&](unsigned count) { return draw(count) == 0; };
  PlacementProblem problem;
  problem.nodes.resize(2 + draw(30));
  static constexpr PrecisionClass classes[] = {
      PrecisionClass::Allow, PrecisionClass::Infer, PrecisionClass::Infer,
      PrecisionClass::Clear, PrecisionClass::Clear, PrecisionClass::Clear,
      PrecisionClass::Deny};
  for (PlacementNode &node : problem.nodes) {
    node.precisionClass = classes[draw(std::size(classes))];
    node.deniesReaders =
        node.precisionClass == PrecisionClass::Deny || isOneOf(12);
    node.readInFP32 = isOneOf(6);
    node.meetsWide = isOneOf(8);
    node.isBounded = isOneOf(6);
    if (isOneOf(10)) {
      node.pin = isOneOf(3) ? Pin::Low : Pin::High;
      node.pinReason =
          node.pin == Pin::Low ? Reason::ForceLow : Reason::LossRegion;
    }
  }
  // Values that stay in fp32 go back to earlier ops in loops. In some problems,
  // any value does: ops of several functions share a node.
  const bool hasCycles = isOneOf(2);
  const unsigned count = problem.nodes.size();
  for (unsigned i = 0, edges = draw(3 * count); i < edges; ++i) {
    unsigned a = draw(count), b = draw(count);
    const bool isWide = isOneOf(4);
    if (a > b && !(isWide || hasCycles))
      std::swap(a, b);
    connect(problem, a, b, isWide);
  }
  return problem;
}

static void expectSolved(const PlacementChanges &changes,
                         const PlacementProblem &problem) {
  std::vector<Placement> placements =
      createGreedyPlacement(/*findsPaths=*/false)->place(problem);
  for (auto [node, placement] : llvm::enumerate(placements)) {
    EXPECT_EQ(changes.isLow(node), placement.low);
    EXPECT_EQ(changes.isForcedLow(node),
              placement.low && placement.reason == Reason::ForceLow);
    EXPECT_EQ(changes.hasLowConsumer(node),
              llvm::any_of(problem.nodes[node].consumers, [&](unsigned reader) {
                return placements[reader].low;
              }));
  }
}

TEST(PlacementChanges, AreThoseOfANewSolution) {
  std::mt19937 random(1);
  for (unsigned i = 0; i < 2000; ++i) {
    SCOPED_TRACE("problem " + std::to_string(i));
    const PlacementProblem problem = makeRandomProblem(random);
    PlacementChanges changes(problem);
    expectSolved(changes, problem);
    for (unsigned node = 0; node < problem.nodes.size(); ++node) {
      SCOPED_TRACE("node " + std::to_string(node));
      const bool low = random() % 2;
      const Pin pin = low ? Pin::Low : Pin::High;
      const Reason reason = low ? Reason::ForceLow : Reason::KeepFP32;
      llvm::SmallVector<unsigned> settled = {node};
      if (unsigned other = random() % problem.nodes.size();
          random() % 3 == 0 && other != node)
        settled.push_back(other);
      PlacementProblem changed = problem;
      for (unsigned each : settled) {
        changed.nodes[each].pin = pin;
        changed.nodes[each].pinReason = reason;
        changed.nodes[each].deniesReaders = false;
      }
      PlacementChanges before = changes;
      auto found = changes.settle(settled, pin, reason);
      expectSolved(changes, changed);
      llvm::SmallVector<unsigned> expected;
      for (unsigned each = 0; each < problem.nodes.size(); ++each)
        if (changes.isLow(each) != before.isLow(each) ||
            changes.isForcedLow(each) != before.isForcedLow(each))
          expected.push_back(each);
      EXPECT_EQ(found, expected);
      changes.restore();
      // A search that ends early leaves no traces, either.
      (void)changes.settle(settled, pin, reason, /*maxSteps=*/random() % 20);
      changes.restore();
    }
    expectSolved(changes, problem);
    if (HasFailure())
      return;
  }
}

// Two clear nodes read each other, and lie between two products. Without the
// first product, neither may stay low only because the other is.
TEST(PlacementChanges, NodesOfACycleDoNotKeepEachOtherLow) {
  PlacementProblem problem;
  problem.nodes.resize(4);
  const unsigned first = 0, a = 1, b = 2, last = 3;
  for (unsigned node : {first, last})
    problem.nodes[node].precisionClass = PrecisionClass::Allow;
  for (unsigned node : {a, b})
    problem.nodes[node].precisionClass = PrecisionClass::Clear;
  for (auto [from, to] : {std::pair(first, a), {a, b}, {b, a}, {a, last}})
    connect(problem, from, to, /*isWide=*/false);
  PlacementChanges changes(problem);
  EXPECT_TRUE(changes.isLow(a) && changes.isLow(b));
  EXPECT_EQ(changes.settle(first, Pin::High, Reason::KeepFP32),
            std::optional(llvm::SmallVector<unsigned>{first, a, b}));
}

// Returns the number of steps for a flip of each product in a residual network
// of `count` blocks: x + product(exp(product(x))).
static uint64_t countSteps(unsigned count) {
  PlacementProblem problem;
  auto add = [&](PrecisionClass precisionClass,
                 llvm::ArrayRef<unsigned> producers) {
    unsigned self = problem.nodes.size();
    problem.nodes.emplace_back().precisionClass = precisionClass;
    for (unsigned producer : producers)
      connect(problem, producer, self, /*isWide=*/false);
    return self;
  };
  llvm::SmallVector<unsigned> products;
  unsigned stream = add(PrecisionClass::Allow, {});
  for (unsigned i = 0; i < count; ++i) {
    unsigned inner = add(PrecisionClass::Allow, stream);
    unsigned middle = add(PrecisionClass::Infer, inner);
    unsigned outer = add(PrecisionClass::Allow, middle);
    stream = add(PrecisionClass::Infer, {stream, outer});
    llvm::append_range(products, llvm::ArrayRef<unsigned>{inner, outer});
  }
  add(PrecisionClass::Allow, stream);
  PlacementChanges changes(problem);
  const uint64_t before = changes.countSteps();
  for (unsigned product : products) {
    changes.settle(product, Pin::High, Reason::KeepFP32);
    changes.restore();
  }
  return changes.countSteps() - before;
}

TEST(PlacementChanges, CostTheSameInLargeModels) {
  const uint64_t few = countSteps(100), many = countSteps(10000);
  EXPECT_GT(few, 200u);
  EXPECT_LT(many, 110 * few);
}

// Each op of a chain between two products follows the first product. Few steps
// do not suffice to tell.
TEST(PlacementChanges, EndWithTheirSteps) {
  PlacementProblem problem;
  constexpr unsigned kLength = 1000;
  problem.nodes.resize(kLength);
  for (unsigned i = 0; i < kLength; ++i) {
    problem.nodes[i].precisionClass = i == 0 || i == kLength - 1
                                          ? PrecisionClass::Allow
                                          : PrecisionClass::Infer;
    if (i > 0)
      connect(problem, i - 1, i, /*isWide=*/false);
  }
  PlacementChanges changes(problem);
  EXPECT_EQ(changes.settle(0, Pin::High, Reason::KeepFP32, /*maxSteps=*/1000),
            std::nullopt);
  changes.restore();
  auto followers = changes.settle(0, Pin::High, Reason::KeepFP32,
                                  /*maxSteps=*/100 * kLength);
  ASSERT_TRUE(followers);
  EXPECT_EQ(followers->size(), kLength - 1);
}
