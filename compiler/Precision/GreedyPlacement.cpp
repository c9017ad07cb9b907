// Painting: allowed ops are low; denied ops are high, and so is what reads
// them up to the next allowed op; infer and clear ops between low ops are low;
// clear ops that only low ops read are low; the rest is high.
//
// Two departures from the graph rewriters this comes from: nothing is painted
// low at the tail of a low region, where a rounding would buy no product; and
// the graph holds the backward pass, so a saved value counts as read there.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Placement.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;
using amp::PrecisionClass;
using amp::Reason;

namespace {
constexpr unsigned kNone = ~0u;

class GreedyPlacement final : public PlacementAlgorithm {
public:
  explicit GreedyPlacement(bool findsPaths) : findsPaths(findsPaths) {}

  std::vector<Placement> place(const PlacementProblem &problem) override;

private:
  enum class Color { None, Low, High };

  void paint(unsigned node, Color color, Reason reason,
             ArrayRef<unsigned> path);
  bool isOpen(unsigned node) const;

  void paintPinnedAndAllowed();
  llvm::BitVector findDenyCarriers() const;
  void spreadDeny();
  void bridgeLow();
  void spreadLowUpstream();

  bool findsPaths;
  ArrayRef<PlacementNode> nodes;
  std::vector<Color> colors;
  std::vector<Placement> placements;
};
} // namespace

void GreedyPlacement::paint(unsigned node, Color color, Reason reason,
                            ArrayRef<unsigned> path) {
  colors[node] = color;
  placements[node].low = color == Color::Low;
  placements[node].reason = reason;
  placements[node].path.assign(path.begin(), path.end());
}

// Whether painting may still decide the node by its neighbours.
bool GreedyPlacement::isOpen(unsigned node) const {
  return colors[node] == Color::None &&
         (nodes[node].precisionClass == PrecisionClass::Infer ||
          nodes[node].precisionClass == PrecisionClass::Clear);
}

void GreedyPlacement::paintPinnedAndAllowed() {
  for (auto [i, node] : llvm::enumerate(nodes)) {
    unsigned self = i;
    if (node.pin != PlacementNode::Pin::None)
      paint(self,
            node.pin == PlacementNode::Pin::Low ? Color::Low : Color::High,
            node.pinReason, self);
    else if (node.precisionClass == PrecisionClass::Allow)
      paint(self, Color::Low, Reason::AllowList, self);
    else if (node.precisionClass == PrecisionClass::Deny)
      paint(self, Color::High, Reason::DenyList, self);
  }
}

// Open nodes that hand a denial on: infer ops, and clear ops from which an
// infer or denied op is reached through clear ops. A run of clear ops that ends
// at an allowed op does not: casting before it or after it is the same.
llvm::BitVector GreedyPlacement::findDenyCarriers() const {
  llvm::BitVector carriers(nodes.size());
  // Start with infer ops and denials.
  SmallVector<unsigned> worklist;
  for (unsigned i = 0; i < nodes.size(); ++i) {
    bool infers = isOpen(i) && nodes[i].precisionClass == PrecisionClass::Infer;
    bool denies = colors[i] == Color::High && nodes[i].deniesReaders;
    if (infers)
      carriers.set(i);
    if (infers || denies)
      worklist.push_back(i);
  }
  // Open producers hand it on, until nothing is added.
  while (!worklist.empty()) {
    const PlacementNode &reader = nodes[worklist.pop_back_val()];
    for (unsigned producer :
         llvm::concat<const unsigned>(reader.producers, reader.wideProducers))
      if (isOpen(producer) && !carriers.test(producer)) {
        carriers.set(producer);
        worklist.push_back(producer);
      }
  }
  return carriers;
}

void GreedyPlacement::spreadDeny() {
  llvm::BitVector carriers = findDenyCarriers();
  SmallVector<unsigned> worklist;
  for (unsigned i = 0; i < nodes.size(); ++i)
    if (colors[i] == Color::High && nodes[i].deniesReaders)
      worklist.push_back(i);
  // First in, first out, so that paths are shortest ones.
  for (unsigned next = 0; next < worklist.size(); ++next) {
    unsigned source = worklist[next];
    for (unsigned consumer : llvm::concat<const unsigned>(
             nodes[source].consumers, nodes[source].wideConsumers)) {
      if (!isOpen(consumer) || !carriers.test(consumer))
        continue;
      SmallVector<unsigned, 4> path;
      if (findsPaths)
        path = placements[source].path;
      path.push_back(consumer);
      paint(consumer, Color::High, Reason::AfterDenied, path);
      worklist.push_back(consumer);
    }
  }
}

// Walks from low nodes through open nodes in the direction `next` gives, within
// `limit` where it is given; returns each reached node's predecessor.
template <typename NextFn, typename OpenFn>
static std::vector<unsigned> reach(unsigned size, ArrayRef<unsigned> seeds,
                                   NextFn next, OpenFn isOpen) {
  std::vector<unsigned> from(size, kNone);
  SmallVector<unsigned> worklist(seeds);
  for (unsigned i = 0; i < worklist.size(); ++i)
    for (unsigned neighbour : next(worklist[i]))
      if (from[neighbour] == kNone && isOpen(neighbour)) {
        from[neighbour] = worklist[i];
        worklist.push_back(neighbour);
      }
  return from;
}

// Open nodes on a path from a low node to a low node become low.
void GreedyPlacement::bridgeLow() {
  // Forwards from low nodes through open ones, then backwards through those
  // that were reached.
  SmallVector<unsigned> seeds;
  for (unsigned i = 0; i < nodes.size(); ++i)
    if (colors[i] == Color::Low)
      seeds.push_back(i);
  auto open = [&](unsigned node) { return isOpen(node); };
  std::vector<unsigned> before = reach(
      nodes.size(), seeds,
      [&](unsigned node) { return ArrayRef(nodes[node].consumers); }, open);
  std::vector<unsigned> after = reach(
      nodes.size(), seeds,
      [&](unsigned node) { return ArrayRef(nodes[node].producers); },
      [&](unsigned node) { return isOpen(node) && before[node] != kNone; });
  // What was reached both ways is between: the path leads back to either end.
  for (unsigned i = 0; i < nodes.size(); ++i) {
    if (after[i] == kNone)
      continue;
    SmallVector<unsigned> path;
    for (unsigned node = before[i]; findsPaths && node != kNone;
         node = before[node])
      path.push_back(node);
    std::reverse(path.begin(), path.end());
    path.push_back(i);
    for (unsigned node = after[i]; findsPaths && node != kNone;
         node = after[node])
      path.push_back(node);
    paint(i, Color::Low, Reason::BetweenLow, path);
  }
}

// Rounding commutes with clear ops, so one that only low ops read rounds before
// instead of after.
void GreedyPlacement::spreadLowUpstream() {
  // Count low readers of each node; one all of whose readers are low follows.
  SmallVector<unsigned> worklist;
  SmallVector<size_t> lowConsumers(nodes.size(), 0);
  auto visitLater = [&](unsigned node) {
    worklist.push_back(node);
    for (unsigned producer : nodes[node].producers)
      ++lowConsumers[producer];
  };
  for (unsigned i = 0; i < nodes.size(); ++i)
    if (colors[i] == Color::Low)
      visitLater(i);
  while (!worklist.empty()) {
    unsigned reader = worklist.pop_back_val();
    for (unsigned producer : nodes[reader].producers) {
      const PlacementNode &node = nodes[producer];
      if (!isOpen(producer) || node.readInFP32 ||
          node.precisionClass != PrecisionClass::Clear ||
          lowConsumers[producer] < node.consumers.size())
        continue;
      paint(producer, Color::Low, Reason::FollowsNeighbours,
            {producer, reader});
      visitLater(producer);
    }
  }
}

std::vector<Placement> GreedyPlacement::place(const PlacementProblem &problem) {
  nodes = problem.nodes;
  colors.assign(nodes.size(), Color::None);
  placements.assign(nodes.size(), Placement());
  for (unsigned i = 0; i < nodes.size(); ++i)
    placements[i].path.push_back(i);

  paintPinnedAndAllowed();
  spreadDeny();
  bridgeLow();
  spreadLowUpstream();
  return std::move(placements);
}

std::unique_ptr<PlacementAlgorithm>
mpc::createGreedyPlacement(bool findsPaths) {
  return std::make_unique<GreedyPlacement>(findsPaths);
}
