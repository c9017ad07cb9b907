// Defines the placement problem (which ops compute low) and the interface of
// its solvers.
//
// The problem is a graph of ops that exchange float values. Nodes settled by
// policy, types or flags are pinned. A solution marks each node low or high and
// gives the reason. Greedy painting is one solver; an exact minimum cut over
// the same costs would fit too.
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
  /// True if users of this pinned-high node are denied, as behind a denied op.
  bool deniesReaders = false;
  /// True if a result is read in fp32 outside the problem: as a function
  /// result, or as an operand that stays fp32.
  bool readInFP32 = false;

  /// True if the result stays fp32 even if the op computes low, because a low
  /// type would lose digits that the users need.
  bool keepsResult = false;

  /// `meetsWide`: the op combines a low value with a float32 value that may
  /// leave the low value no digits. `meetsKnown`: the op combines a low value
  /// with a float32 value known to be harmless.
  bool meetsWide = false, meetsKnown = false;
  /// True if the result is of order 1 for any operands.
  bool isBounded = false;

  /// True if the result has no bound that a low type could rely on.
  bool unbounded = false;

  /// Neighbours through values of open type, without duplicates.
  llvm::SmallVector<unsigned, 4> producers, consumers;
  /// Neighbours through values that always stay fp32 (sums). A denial crosses
  /// these edges; a low type does not.
  llvm::SmallVector<unsigned, 2> wideProducers, wideConsumers;

  /// Time in nanoseconds of the op in either type, and of a cast of the result.
  int64_t costLow = 0, costHigh = 0, costCast = 0;
};

struct PlacementProblem {
  std::vector<PlacementNode> nodes;
};

/// A path of nodes in the order of data flow. A long path keeps only its first
/// and last nodes: a chain of 8,000 ops has 8,000 paths, with 32 million nodes
/// in total.
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
  /// The nodes that the reason refers to.
  PlacementPath path;
};

class PlacementAlgorithm {
public:
  virtual ~PlacementAlgorithm() = default;

  /// Returns one placement per node.
  virtual std::vector<Placement> place(const PlacementProblem &problem) = 0;
};

/// Returns a solver that paints by allow/infer/deny/clear lists, as graph
/// rewriters of frameworks do, over forward, backward and update at once.
/// Without `findsPaths`, placements have no path to the deciding nodes.
std::unique_ptr<PlacementAlgorithm>
createGreedyPlacement(bool findsPaths = true);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_PLACEMENT_H
