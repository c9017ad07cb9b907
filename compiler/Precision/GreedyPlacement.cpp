// Decides precisions by painting nodes low or high, in these steps:
// 1. Allowed ops are low.
// 2. Denied ops are high, and so are their users up to the next allowed op.
// 3. An op is high if it combines a low value with a float32 value that is
//    large or of unknown size. Its users are high as in step 2, up to an op
//    whose result is of order 1.
// 4. Infer and clear ops on a path between two low ops are low.
// 5. Clear ops with only low users are low.
// 6. All other ops are high.
//
// Two points differ from the graph rewriters of other frameworks. Ops behind
// the last allowed op of a path stay high, because a rounding there would speed
// up no product. A value that is saved for the backward pass has its backward
// ops as users, because forward and backward are one graph.
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
  assert(nodes.size() == 2 * kEnd && "a gap has kEnd nodes on either side");
}

void PlacementPath::addReversed(const PlacementPath &path) {
  assert((path.omitted == 0 || path.nodes.size() == 2 * kEnd) &&
         "a gap has kEnd nodes on either side");
  ArrayRef<unsigned> rest(path.nodes);
  if (path.omitted > 0) {
    // `path` is appended in reverse, so add the part behind its gap first. Then
    // widen the gap of this path to cover both gaps.
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
  assert(node < nodes.size() && "a node of the problem");
  assert(color != Color::None && colors[node] == Color::None &&
         "a node gets one colour, once");
  colors[node] = color;
  placements[node].low = color == Color::Low;
  placements[node].reason = reason;
  placements[node].path = std::move(path);
}

// True if the node's neighbours may still determine its colour.
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

// Returns the undecided nodes that pass a denial on to their users: infer ops,
// and clear ops from which a path of clear ops leads to an infer or denied op.
// A clear op in front of an allowed op passes nothing on, because a cast costs
// as much in front of the clear op as behind.
llvm::BitVector GreedyPlacement::findDenyCarriers() const {
  llvm::BitVector carriers(nodes.size());
  SmallVector<unsigned> worklist;
  for (unsigned i = 0; i < nodes.size(); ++i) {
    bool infers = isOpen(i) && nodes[i].precisionClass == PrecisionClass::Infer;
    bool denies = colors[i] == Color::High && nodes[i].deniesReaders;
    if (infers)
      carriers.set(i);
    if (infers || denies)
      worklist.push_back(i);
  }
  // Walk upstream from these nodes through open nodes.
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

// Paints high the open nodes downstream of `worklist`. A path ends before the
// first node for which `hands` is false.
void GreedyPlacement::spreadHigh(SmallVector<unsigned> worklist, Reason reason,
                                 llvm::function_ref<bool(unsigned)> hands) {
  // Breadth first, so that the recorded paths are shortest paths.
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

// Paints high the ops that combine a low value with a large float32 value. Also
// paints their users high, as behind a denied op, up to an op whose result is
// always of order 1.
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
/// The nodes that a walk reached. `ways[n]` is the path from the start of the
/// walk to node n, without n.
struct Reached {
  llvm::BitVector isReached;
  std::vector<PlacementPath> ways;
};
} // namespace

// Walks breadth first from `seeds` through nodes for which `isOpen` is true.
// `next` returns the neighbours of a node.
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

// Paints low the open nodes on paths between two low nodes.
void GreedyPlacement::bridgeLow() {
  // `before`: open nodes downstream of a low node. `after`: members of `before`
  // that are also upstream of a low node.
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
  // The path that explains node `i` runs from one low node through `i` to the
  // other.
  for (unsigned i : after.isReached.set_bits()) {
    PlacementPath path = std::move(before.ways[i]);
    path.add(i);
    path.addReversed(after.ways[i]);
    paint(i, Color::Low,
          nodes[i].meetsKnown ? Reason::KnownOperand : Reason::BetweenLow,
          std::move(path));
  }
}

// Paints low the clear ops that only low ops read. Rounding commutes with clear
// ops, so rounding before the op costs nothing.
void GreedyPlacement::spreadLowUpstream() {
  // Count the low users of each node. A clear op becomes low once all users are
  // low.
  SmallVector<unsigned> worklist;
  SmallVector<size_t> lowConsumers(nodes.size(), 0);
  auto visitLater = [&](unsigned node) {
    worklist.push_back(node);
    for (unsigned producer : nodes[node].producers) {
      ++lowConsumers[producer];
      assert(lowConsumers[producer] <= nodes[producer].consumers.size() &&
             "edges are listed at both ends, without duplicates");
    }
  };
  for (unsigned i = 0; i < nodes.size(); ++i)
    if (colors[i] == Color::Low)
      visitLater(i);
  // A newly low node may be the last user of its producers to become low.
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

  assert(llvm::all_of(nodes,
                      [&](const PlacementNode &node) {
                        auto isNode = [&](unsigned other) {
                          return other < nodes.size();
                        };
                        return llvm::all_of(node.consumers, isNode) &&
                               llvm::all_of(node.producers, isNode) &&
                               llvm::all_of(node.wideConsumers, isNode) &&
                               llvm::all_of(node.wideProducers, isNode);
                      }) &&
         "neighbours are nodes of the problem");
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
