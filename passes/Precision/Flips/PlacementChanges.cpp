// Keeps the sets of greedy painting (GreedyPlacement.cpp), and updates them
// after a change of pins.
//
// Each set has its own search, and reads the sets before. An update visits the
// sets in order. First, nodes leave a set if no witness keeps them; then nodes
// enter that have a neighbour in the set. Witnesses never form a cycle, so the
// result is that of a new search, also in loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/Flips/PlacementChanges.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <functional>
#include <numeric>
#include <queue>

using namespace mlir;
using namespace mpc;
using amp::Reason;
using Pin = PlacementNode::Pin;

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

PlacementChanges::PlacementChanges(const PlacementProblem &problem)
    : problem(problem), states(problem.nodes.size()),
      isSaved(problem.nodes.size(), true) {
  for (auto [node, state] : llvm::zip_equal(problem.nodes, states)) {
    state.distance.fill(kOutside);
    state.numHighConsumers = node.consumers.size();
    paint(state, node.pin, node.pinReason, node.deniesReaders);
    if (node.pin == Pin::None)
      state.color = node.precisionClass == PrecisionClass::Allow  ? Color::Low
                    : node.precisionClass == PrecisionClass::Deny ? Color::High
                                                                  : Color::None;
  }
  SmallVector<unsigned> all(states.size());
  std::iota(all.begin(), all.end(), 0u);
  update(all);
  isSaved.assign(states.size(), false);
}

void PlacementChanges::paint(State &state, Pin pin, Reason reason,
                             bool deniesReaders) {
  state.color = pin == Pin::Low ? Color::Low : Color::High;
  state.isForcedLow = pin == Pin::Low && reason == Reason::ForceLow;
  state.deniesReaders = deniesReaders;
}

// Returns the state of `node` for a change, and saves it before the first.
PlacementChanges::State &PlacementChanges::change(unsigned node) {
  if (!isSaved[node]) {
    isSaved[node] = true;
    saved.emplace_back(node, states[node]);
  }
  return states[node];
}

std::optional<SmallVector<unsigned>>
PlacementChanges::settle(ArrayRef<unsigned> nodes, Pin pin, Reason reason,
                         uint64_t maxSteps) {
  assert(pin != Pin::None && "a flag pins nodes");
  lastStep = llvm::SaturatingAdd(numSteps, maxSteps);
  for (unsigned node : nodes)
    paint(change(node), pin, reason, /*deniesReaders=*/false);
  update({});
  if (isOutOfSteps())
    return std::nullopt;
  SmallVector<unsigned> changed;
  for (const auto &[node, before] : saved)
    if (states[node].isLow != before.isLow ||
        states[node].isForcedLow != before.isForcedLow)
      changed.push_back(node);
  llvm::sort(changed);
  return changed;
}

void PlacementChanges::restore() {
  for (const auto &[node, before] : saved) {
    states[node] = before;
    isSaved[node] = false;
  }
  saved.clear();
}

//===----------------------------------------------------------------------===//
// Sets
//===----------------------------------------------------------------------===//

// True if the node's neighbours determine its placement.
bool PlacementChanges::isOpen(unsigned node) const {
  PrecisionClass precisionClass = problem.nodes[node].precisionClass;
  return states[node].color == Color::None &&
         (precisionClass == PrecisionClass::Infer ||
          precisionClass == PrecisionClass::Clear);
}

bool PlacementChanges::isCarrier(unsigned node) const {
  return isOpen(node) && states[node].distance[Carriers] != kOutside;
}

// True if the node can still become low: no denied or wide node is before it.
bool PlacementChanges::isOpenToLow(unsigned node) const {
  const auto &distance = states[node].distance;
  return isOpen(node) && distance[Denied] == kOutside &&
         distance[Wide] == kOutside;
}

bool PlacementChanges::isBetweenLow(unsigned node) const {
  return isOpen(node) && states[node].distance[BetweenLow] != kOutside;
}

// True if the search for `set` starts from `node`.
bool PlacementChanges::isSource(Set set, unsigned node) const {
  const PlacementNode &placed = problem.nodes[node];
  const State &state = states[node];
  const bool denies = state.color == Color::High && state.deniesReaders;
  switch (set) {
  case Carriers:
    return denies ||
           (isOpen(node) && placed.precisionClass == PrecisionClass::Infer);
  case Denied:
    return denies;
  case Wide:
    return placed.meetsWide && (state.color == Color::High || isCarrier(node));
  case AfterLow:
  case BetweenLow:
    return state.color == Color::Low;
  }
  llvm_unreachable("unknown set");
}

// True if `node` can be a member of `set` behind another member or a source.
bool PlacementChanges::admits(Set set, unsigned node) const {
  switch (set) {
  case Carriers:
    return isOpen(node);
  case Denied:
    return isCarrier(node);
  case Wide:
    return isCarrier(node) && states[node].distance[Denied] == kOutside &&
           !problem.nodes[node].isBounded;
  case AfterLow:
    return isOpenToLow(node);
  case BetweenLow:
    return isOpenToLow(node) && states[node].distance[AfterLow] != kOutside;
  }
  llvm_unreachable("unknown set");
}

// Returns the neighbours from which the search for `set` reaches `node`, or
// those that the search reaches from `node`.
static std::array<ArrayRef<unsigned>, 2>
listNeighbours(const PlacementNode &node, bool areReaders, bool withWide) {
  std::array<ArrayRef<unsigned>, 2> lists = {
      areReaders ? ArrayRef(node.consumers) : ArrayRef(node.producers), {}};
  if (withWide)
    lists[1] = areReaders ? ArrayRef<unsigned>(node.wideConsumers)
                          : ArrayRef<unsigned>(node.wideProducers);
  return lists;
}

// Calls `visit` for the next neighbours of `node` in the search for `set` if
// `goesOn`, else for the previous neighbours. Stops if `visit` returns false.
template <typename VisitFn>
void PlacementChanges::visitNeighbours(Set set, unsigned node, bool goesOn,
                                       VisitFn visit) {
  const bool isUpstream = set == Carriers || set == BetweenLow;
  const bool withWide = set != AfterLow && set != BetweenLow;
  for (ArrayRef<unsigned> list :
       listNeighbours(problem.nodes[node], isUpstream != goesOn, withWide))
    for (unsigned neighbour : list) {
      ++numSteps;
      if (!visit(neighbour))
        return;
    }
}

// Returns the least distance of the neighbours from which the search for `set`
// comes; kOutside if the search reaches none. Returns any distance of at most
// `enough` instead.
unsigned PlacementChanges::findNearest(Set set, unsigned node,
                                       unsigned enough) {
  unsigned nearest = kOutside;
  visitNeighbours(set, node, /*goesOn=*/false, [&](unsigned neighbour) {
    nearest = std::min(nearest, states[neighbour].distance[set]);
    return nearest > enough;
  });
  return nearest;
}

// Removes nodes from `set` that have no witness, beginning with `suspects`.
// Nodes near the sources go first, so a witness is settled before its nodes.
// Returns the removed nodes.
SmallVector<unsigned> PlacementChanges::shrink(Set set,
                                               ArrayRef<unsigned> suspects) {
  using Entry = std::pair<unsigned, unsigned>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  auto visitLater = [&](unsigned node) {
    if (unsigned distance = states[node].distance[set]; distance != kOutside)
      queue.emplace(distance, node);
  };
  llvm::for_each(suspects, visitLater);
  SmallVector<unsigned> lost;
  for (; !queue.empty() && !isOutOfSteps(); ++numSteps) {
    const unsigned distance = queue.top().first, node = queue.top().second;
    queue.pop();
    if (states[node].distance[set] == kOutside || isSource(set, node))
      continue;
    if (distance > 0 && admits(set, node) &&
        findNearest(set, node, /*enough=*/distance - 1) < distance)
      continue;
    change(node).distance[set] = kOutside;
    lost.push_back(node);
    visitNeighbours(set, node, /*goesOn=*/true, [&](unsigned neighbour) {
      if (states[neighbour].distance[set] > distance)
        visitLater(neighbour);
      return true;
    });
  }
  return lost;
}

// Adds each of `candidates` that the search now reaches to `set`, with all
// nodes behind.
void PlacementChanges::grow(Set set, ArrayRef<unsigned> candidates) {
  SmallVector<unsigned> worklist;
  auto enter = [&](unsigned node, unsigned distance) {
    if (states[node].distance[set] == kOutside)
      worklist.push_back(node);
    change(node).distance[set] = distance;
  };
  auto tryToEnter = [&](unsigned node) {
    if (states[node].distance[set] != kOutside || !admits(set, node))
      return;
    unsigned nearest = findNearest(set, node, /*enough=*/0);
    if (nearest != kOutside)
      enter(node, nearest + 1);
  };
  for (unsigned node : candidates)
    if (states[node].distance[set] != 0 && isSource(set, node))
      enter(node, 0);
  // Breadth first, so that distances are short and witnesses are many.
  unsigned next = 0;
  auto search = [&] {
    for (; next < worklist.size() && !isOutOfSteps(); ++next, ++numSteps)
      visitNeighbours(set, worklist[next], /*goesOn=*/true,
                      [&](unsigned neighbour) {
                        tryToEnter(neighbour);
                        return true;
                      });
  };
  search();
  llvm::for_each(candidates, tryToEnter);
  search();
}

//===----------------------------------------------------------------------===//
// Low nodes
//===----------------------------------------------------------------------===//

// True if the node is low because only low nodes read it.
bool PlacementChanges::followsReaders(unsigned node) const {
  const PlacementNode &placed = problem.nodes[node];
  return isOpenToLow(node) && !isBetweenLow(node) && !placed.readInFP32 &&
         placed.precisionClass == PrecisionClass::Clear &&
         !placed.consumers.empty() && states[node].numHighConsumers == 0;
}

// Decides again which nodes are low, beginning with `suspects`. First nodes
// only become high, then only low: nodes of a cycle must not keep each other
// low.
void PlacementChanges::decide(ArrayRef<unsigned> suspects) {
  SmallVector<unsigned> candidates(suspects);
  for (bool low : {false, true}) {
    SmallVector<unsigned> worklist(candidates);
    for (; !worklist.empty() && !isOutOfSteps(); ++numSteps) {
      unsigned node = worklist.pop_back_val();
      // A node that becomes low anew waits for the second round.
      const bool follows =
          (low || states[node].followsReaders) && followsReaders(node);
      if (follows != states[node].followsReaders)
        change(node).followsReaders = follows;
      const bool isLow =
          states[node].color == Color::Low || isBetweenLow(node) || follows;
      if (isLow != low || states[node].isLow == low)
        continue;
      change(node).isLow = low;
      candidates.push_back(node);
      for (unsigned producer : problem.nodes[node].producers) {
        ++numSteps;
        change(producer).numHighConsumers += low ? -1 : 1;
        worklist.push_back(producer);
      }
    }
  }
}

// Updates all sets and decisions after changes of `first` and of all saved
// nodes.
void PlacementChanges::update(ArrayRef<unsigned> first) {
  auto listChanged = [&] {
    SmallVector<unsigned> changed(first);
    llvm::append_range(changed, llvm::make_first_range(saved));
    return changed;
  };
  for (Set set : {Carriers, Denied, Wide, AfterLow, BetweenLow}) {
    SmallVector<unsigned> changed = listChanged();
    llvm::append_range(changed, shrink(set, changed));
    grow(set, changed);
  }
  decide(listChanged());
}
