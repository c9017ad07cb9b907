// Where to go low: the problem, and the interface of what solves it.
//
// The problem is a graph of ops that exchange float values, with what policy,
// types and flags already settle pinned. A solution says low or high for each
// node and why. Greedy painting is one solver; an exact minimum cut over the
// same costs can take its place.
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
  /// Why it is pinned; meaningless where it is not.
  amp::Reason pinReason = amp::Reason::Mode;
  /// Whether a pinned-high node denies what reads it, as a denied op does.
  bool deniesReaders = false;
  /// Whether something outside the problem reads a result in fp32: a function's
  /// result, an operand that stays fp32.
  bool readInFP32 = false;

  /// Whether a low type would lose what its readers need of the result, which
  /// stays fp32 where the op computes low as well.
  bool keepsResult = false;

  /// True if it combines what may be low with a float32 value next to which a
  /// low type may have no digits for the rest; and true if it would, but for
  /// the values that this one is known to have.
  bool meetsWide = false, meetsKnown = false;
  /// True if its result is of order 1 whatever it reads.
  bool isBounded = false;

  /// Whether what it produces has no bound a low type could count on.
  bool unbounded = false;

  /// Neighbours through values whose type is open, each once.
  llvm::SmallVector<unsigned, 4> producers, consumers;
  /// Neighbours through values that stay fp32 whatever is decided, such as
  /// sums: a denial crosses them, a low type does not.
  llvm::SmallVector<unsigned, 2> wideProducers, wideConsumers;

  /// Nanoseconds in either type, and of casting the result.
  int64_t costLow = 0, costHigh = 0, costCast = 0;
};

struct PlacementProblem {
  std::vector<PlacementNode> nodes;
};

/// Nodes along a way, in the order values flow. A long way keeps its first and
/// its last nodes: a chain of 8,000 ops has as many ways, and the nodes of each
/// would be 32 million.
struct PlacementPath {
  /// How many nodes either end of a long way keeps.
  static constexpr size_t kEnd = 8;

  /// All nodes; where some are left out, `kEnd` before the gap and as many
  /// behind it.
  llvm::SmallVector<unsigned, 4> nodes;
  size_t omitted = 0;

  void add(unsigned node);
  /// Adds the nodes of another way, last one first.
  void addReversed(const PlacementPath &path);
};

struct Placement {
  bool low = false;
  amp::Reason reason = amp::Reason::NotBetweenLow;
  /// The nodes the reason speaks of.
  PlacementPath path;
};

class PlacementAlgorithm {
public:
  virtual ~PlacementAlgorithm() = default;

  /// One placement per node.
  virtual std::vector<Placement> place(const PlacementProblem &problem) = 0;
};

/// Allow/infer/deny/clear painting, as graph rewriters of frameworks do it,
/// over forward, backward and update at once. Without `findsPaths`, placements
/// say nothing of the way to the nodes that settled them.
std::unique_ptr<PlacementAlgorithm>
createGreedyPlacement(bool findsPaths = true);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_PLACEMENT_H
