// Painting: allowed ops are low; denied ops are high, and so is what reads
// them up to the next allowed op; ops that meet wide values likewise; infer and
// clear ops between low ops are low; clear ops that only low ops read are low;
// the rest is high.
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
using amp::Reason;

namespace {
class GreedyPlacement final : public PlacementAlgorithm {
public:
  explicit GreedyPlacement(bool findsPaths) : findsPaths(findsPaths) {}

  std::vector<Placement> place(const PlacementProblem &problem) override;

private:
  enum class Color { None, Low, High };

  void paint(unsigned node, Color color, Reason reason, PlacementPath path);
  void paint(unsigned node, Color color, Reason reason) {
    paint(node, color, reason, PlacementPath{{node}});
  }
  bool isOpen(unsigned node) const;

  void paintPinnedAndAllowed();
  llvm::BitVector findDenyCarriers() const;
  void spreadDeny();
  void spreadWide(const llvm::BitVector &carriers);
  void spreadHigh(SmallVector<unsigned> worklist, Reason reason,
                  llvm::function_ref<bool(unsigned)> hands);
  void bridgeLow();
  void spreadLowUpstream();

  bool findsPaths;
  ArrayRef<PlacementNode> nodes;
  std::vector<Color> colors;
  std::vector<Placement> placements;
};
} // namespace

void PlacementPath::add(unsigned node) {
  nodes.push_back(node);
  if (nodes.size() <= 2 * kEnd)
    return;
  nodes.erase(nodes.begin() + kEnd);
  ++omitted;
}

void PlacementPath::addReversed(const PlacementPath &path) {
  ArrayRef<unsigned> rest(path.nodes);
  if (path.omitted > 0) {
    // What is behind its gap comes first, and then a gap that joins what is
    // left out here.
    for (unsigned node : llvm::reverse(rest.drop_front(kEnd)))
      add(node);
    omitted += path.omitted + nodes.size() - kEnd;
    nodes.truncate(kEnd);
    rest = rest.take_front(kEnd);
  }
  for (unsigned node : llvm::reverse(rest))
    add(node);
}

void GreedyPlacement::paint(unsigned node, Color color, Reason reason,
                            PlacementPath path) {
  colors[node] = color;
  placements[node].low = color == Color::Low;
  placements[node].reason = reason;
  placements[node].path = std::move(path);
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
            node.pinReason);
    else if (node.precisionClass == PrecisionClass::Allow)
      paint(self, Color::Low, Reason::AllowList);
    else if (node.precisionClass == PrecisionClass::Deny)
      paint(self, Color::High, Reason::DenyList);
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

// Paints high the open nodes that read those of the worklist, what reads these,
// and so on, as far as `hands` says that a node hands it on.
void GreedyPlacement::spreadHigh(SmallVector<unsigned> worklist, Reason reason,
                                 llvm::function_ref<bool(unsigned)> hands) {
  // First in, first out, so that paths are shortest ones.
  for (unsigned next = 0; next < worklist.size(); ++next) {
    unsigned source = worklist[next];
    for (unsigned consumer : llvm::concat<const unsigned>(
             nodes[source].consumers, nodes[source].wideConsumers)) {
      if (!isOpen(consumer) || !hands(consumer))
        continue;
      PlacementPath path;
      if (findsPaths)
        path = placements[source].path;
      path.add(consumer);
      paint(consumer, Color::High, reason, std::move(path));
      worklist.push_back(consumer);
    }
  }
}

void GreedyPlacement::spreadDeny() {
  llvm::BitVector carriers = findDenyCarriers();
  SmallVector<unsigned> worklist;
  for (unsigned i = 0; i < nodes.size(); ++i)
    if (colors[i] == Color::High && nodes[i].deniesReaders)
      worklist.push_back(i);
  spreadHigh(std::move(worklist), Reason::AfterDenied,
             [&](unsigned node) { return carriers.test(node); });
  spreadWide(carriers);
}

// Ops that meet wide values are high, and so is what reads them, as behind a
// denied op, but no further than to an op that gives values of order 1.
void GreedyPlacement::spreadWide(const llvm::BitVector &carriers) {
  SmallVector<unsigned> worklist;
  for (unsigned i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].meetsWide)
      continue;
    if (isOpen(i) && carriers.test(i))
      paint(i, Color::High, Reason::WideOperand);
    if (colors[i] == Color::High)
      worklist.push_back(i);
  }
  spreadHigh(std::move(worklist), Reason::WideOperand, [&](unsigned node) {
    return carriers.test(node) && !nodes[node].isBounded;
  });
}

namespace {
/// Which nodes a walk reached, and from which seed on which way: each node's
/// way ends in front of it.
struct Reached {
  llvm::BitVector isReached;
  std::vector<PlacementPath> ways;
};
} // namespace

// Walks from low nodes through open nodes in the direction `next` gives.
template <typename NextFn, typename OpenFn>
static Reached reach(unsigned size, ArrayRef<unsigned> seeds, bool findsWays,
                     NextFn next, OpenFn isOpen) {
  Reached reached{llvm::BitVector(size), std::vector<PlacementPath>(size)};
  SmallVector<unsigned> worklist(seeds);
  for (unsigned i = 0; i < worklist.size(); ++i)
    for (unsigned neighbour : next(worklist[i])) {
      if (reached.isReached.test(neighbour) || !isOpen(neighbour))
        continue;
      reached.isReached.set(neighbour);
      worklist.push_back(neighbour);
      if (!findsWays)
        continue;
      reached.ways[neighbour] = reached.ways[worklist[i]];
      reached.ways[neighbour].add(worklist[i]);
    }
  return reached;
}

// Open nodes on a path from a low node to a low node become low.
void GreedyPlacement::bridgeLow() {
  // Open nodes that a low node reaches along consumers, and of these the ones
  // that a low node reaches along producers.
  SmallVector<unsigned> seeds;
  for (unsigned i = 0; i < nodes.size(); ++i)
    if (colors[i] == Color::Low)
      seeds.push_back(i);
  auto open = [&](unsigned node) { return isOpen(node); };
  Reached before = reach(
      nodes.size(), seeds, findsPaths,
      [&](unsigned node) { return ArrayRef(nodes[node].consumers); }, open);
  Reached after = reach(
      nodes.size(), seeds, findsPaths,
      [&](unsigned node) { return ArrayRef(nodes[node].producers); },
      [&](unsigned node) {
        return isOpen(node) && before.isReached.test(node);
      });
  // What was reached both ways is between: the path leads back to either end.
  for (unsigned i : after.isReached.set_bits()) {
    PlacementPath path = std::move(before.ways[i]);
    path.add(i);
    path.addReversed(after.ways[i]);
    paint(i, Color::Low,
          nodes[i].meetsKnown ? Reason::KnownOperand : Reason::BetweenLow,
          std::move(path));
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
  // A node whose last reader has just become low follows, and its own producers
  // may follow it.
  while (!worklist.empty()) {
    unsigned reader = worklist.pop_back_val();
    for (unsigned producer : nodes[reader].producers) {
      const PlacementNode &node = nodes[producer];
      if (!isOpen(producer) || node.readInFP32 ||
          node.precisionClass != PrecisionClass::Clear ||
          lowConsumers[producer] < node.consumers.size())
        continue;
      paint(producer, Color::Low, Reason::FollowsNeighbours,
            PlacementPath{{producer, reader}});
      visitLater(producer);
    }
  }
}

std::vector<Placement> GreedyPlacement::place(const PlacementProblem &problem) {
  nodes = problem.nodes;
  colors.assign(nodes.size(), Color::None);
  placements.assign(nodes.size(), Placement());
  for (unsigned i = 0; i < nodes.size(); ++i)
    placements[i].path.add(i);

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
