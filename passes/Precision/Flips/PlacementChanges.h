// Finds the placements that change if a few nodes get other pins.
//
// A flag of the user pins one node, or the few nodes of a name. Solving the
// whole problem again for each of n possible flags would take quadratic time.
// So this solver keeps the solution and visits only nodes whose neighbours
// change.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_FLIPS_PLACEMENTCHANGES_H
#define MPC_PASSES_PRECISION_FLIPS_PLACEMENTCHANGES_H

#include "compiler/Precision/Placement.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <cstdint>

namespace mpc {

/// The solution of a problem by greedy painting (createGreedyPlacement), and
/// the changes of the solution by other pins. Holds a reference to the problem.
/// A copy is independent, and cheaper to make than a new solution.
class PlacementChanges {
public:
  explicit PlacementChanges(const PlacementProblem &problem);

  /// Pins `nodes` as flags do, each once, so that the nodes no longer deny
  /// their readers. Returns the nodes whose placement differs from the
  /// placement without these pins, in ascending order. Returns nullopt after
  /// more than `maxSteps` steps.
  std::optional<llvm::SmallVector<unsigned>>
  settle(llvm::ArrayRef<unsigned> nodes, PlacementNode::Pin pin,
         amp::Reason reason, uint64_t maxSteps = kUnlimited);
  /// Takes the pins of the last `settle` back, also if that returned nullopt.
  void restore();

  bool isLow(unsigned node) const { return states[node].isLow; }
  /// True if --force-low pins the node.
  bool isForcedLow(unsigned node) const { return states[node].isForcedLow; }
  /// True if a low node reads a value of the node whose type the placement
  /// decides.
  bool hasLowConsumer(unsigned node) const {
    return states[node].numHighConsumers < problem.nodes[node].consumers.size();
  }

  /// Returns the number of nodes and edges looked at so far: a measure of time
  /// that does not depend on the machine.
  uint64_t countSteps() const { return numSteps; }

private:
  static constexpr uint64_t kUnlimited = ~uint64_t(0);

  /// The sets of nodes that greedy painting computes one after the other, each
  /// by a search from some sources.
  ///
  /// Carriers: open nodes through which a denial spreads.
  /// Denied: carriers behind a denied node.
  /// Wide: carriers behind a node that meets a large float32 value.
  /// AfterLow: open nodes behind a low node.
  /// BetweenLow: members of AfterLow before a low node.
  enum Set { Carriers, Denied, Wide, AfterLow, BetweenLow };
  static constexpr unsigned kNumSets = 5;
  static constexpr unsigned kOutside = ~0u;

  enum class Color : uint8_t { None, Low, High };

  struct State {
    Color color = Color::None;
    bool isForcedLow = false, deniesReaders = false;
    /// True if only low nodes read the node, and so the node became low.
    bool followsReaders = false;
    bool isLow = false;
    unsigned numHighConsumers = 0;
    /// For each set, the number of edges from a source to the node: 0 for a
    /// source, kOutside for a node out of reach. Each node in reach has a
    /// neighbour with a smaller number, its witness, so that a node keeps its
    /// place while a witness does.
    std::array<unsigned, kNumSets> distance;
  };

  bool isOutOfSteps() const { return numSteps > lastStep; }
  static void paint(State &state, PlacementNode::Pin pin, amp::Reason reason,
                    bool deniesReaders);
  State &change(unsigned node);

  bool isOpen(unsigned node) const;
  bool isCarrier(unsigned node) const;
  bool isOpenToLow(unsigned node) const;
  bool isBetweenLow(unsigned node) const;
  bool isSource(Set set, unsigned node) const;
  bool admits(Set set, unsigned node) const;
  bool followsReaders(unsigned node) const;

  template <typename VisitFn>
  void visitNeighbours(Set set, unsigned node, bool goesOn, VisitFn visit);
  unsigned findNearest(Set set, unsigned node, unsigned enough);
  llvm::SmallVector<unsigned> shrink(Set set,
                                     llvm::ArrayRef<unsigned> suspects);
  void grow(Set set, llvm::ArrayRef<unsigned> candidates);
  void decide(llvm::ArrayRef<unsigned> suspects);
  void update(llvm::ArrayRef<unsigned> first);

  const PlacementProblem &problem;
  std::vector<State> states;
  /// The nodes that have changed since the last `restore`, as they were.
  std::vector<std::pair<unsigned, State>> saved;
  std::vector<bool> isSaved;
  uint64_t numSteps = 0, lastStep = kUnlimited;
};

} // namespace mpc

#endif // MPC_PASSES_PRECISION_FLIPS_PLACEMENTCHANGES_H
