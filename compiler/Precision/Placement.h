// Defines the placement problem (which ops compute low) and the interface of
// its solvers.
//
// The problem is a graph of ops that exchange float values. Nodes settled by
// policy, types or flags are pinned. A solution marks each node low or high and
// gives the reason. Greedy painting is one solver; an exact minimum cut would
// fit too.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_PLACEMENT_H
#define MPC_COMPILER_PRECISION_PLACEMENT_H

#include "compiler/Dialect/AMP/AMP.h"

#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <optional>
#include <vector>

namespace mpc {

struct PlacementNode {
  enum class Pin { None, Low, High };

  PrecisionClass precisionClass;
  Pin pin = Pin::None;
  /// The reason for the pin; meaningless without a pin.
  amp::Reason pinReason = amp::Reason::Mode;
  /// True if this node is high and makes its users high too, up to the next
  /// allowed op. Holds for denied ops and for ops of the loss.
  bool deniesReaders = false;
  /// True if a result is read in fp32 by anything but a node of the problem: a
  /// function result, an operand that stays fp32, or the body of a loop.
  bool readInFP32 = false;

  /// True if the result stays fp32 even if the op computes low, because a low
  /// type would lose digits that the users need.
  bool keepsResult = false;

  /// `meetsWide`: the op combines a low value with a float32 value that is
  /// large or of unknown size, so a low result may keep no digit of the low
  /// value. `meetsKnown`: the float32 value is known to be harmless.
  bool meetsWide = false, meetsKnown = false;
  /// True if the result is of order 1 whatever the operands are.
  bool isBounded = false;

  /// True if the range of the result grows with the shape, as for a sum, so
  /// that a low type may overflow.
  bool unbounded = false;

  /// Neighbours through values whose type the placement decides, each once.
  llvm::SmallVector<unsigned, 4> producers, consumers;
  /// Neighbours through values that always stay fp32, such as sums. A denial
  /// spreads along these edges; low types do not.
  llvm::SmallVector<unsigned, 2> wideProducers, wideConsumers;
};

struct PlacementProblem {
  std::vector<PlacementNode> nodes;
};

/// A path of nodes in the order of data flow. A long path keeps only its first
/// and last nodes. Whole paths would need quadratic memory: a chain of 8,000
/// ops has 8,000 paths with 32 million nodes in total.
struct PlacementPath {
  /// The number of nodes kept at either end of a long path.
  static constexpr size_t kEnd = 8;

  /// All nodes of the path; if nodes were left out, `kEnd` nodes before the gap
  /// and `kEnd` behind the gap.
  llvm::SmallVector<unsigned, 4> nodes;
  size_t omitted = 0;

  void add(unsigned node);
  /// Appends the nodes of `path` in reverse order.
  void addReversed(const PlacementPath &path);
};

struct Placement {
  bool low = false;
  amp::Reason reason = amp::Reason::NotBetweenLow;
  /// The nodes that explain the reason, such as the path from a denied op to
  /// this op.
  PlacementPath path;
};

class PlacementAlgorithm {
public:
  virtual ~PlacementAlgorithm() = default;

  /// Returns one placement per node, in the order of the nodes.
  virtual std::vector<Placement> place(const PlacementProblem &problem) = 0;
};

/// Returns a solver that paints by allow/infer/deny/clear lists, as graph
/// rewriters of frameworks do, over forward, backward and update at once.
/// Without `findsPaths`, placements have no path to the deciding nodes.
std::unique_ptr<PlacementAlgorithm>
createGreedyPlacement(bool findsPaths = true);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_PLACEMENT_H
