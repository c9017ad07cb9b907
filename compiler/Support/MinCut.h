// Finds the cheapest set of edges that separates a source from a sink.
//
// A minimum cut chooses one of two options for each of many things. Both
// options, and pairs of options of different things, may have a cost. For
// example, a kernel computes x and y = exp(x), and y is needed later. Storing y
// costs 5. Recomputing y costs 2 and needs x, and storing x costs 4. Let node y
// be on the sink's side if y is recomputed, and node x on the sink's side if x
// is stored. The edges are: source -> y of 2, y -> sink of 5, source -> x of 4,
// and an edge x -> y that cannot be cut, which forbids recomputing y without x.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_SUPPORT_MINCUT_H
#define MPC_COMPILER_SUPPORT_MINCUT_H

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace mpc {

/// A directed graph with capacities on edges. Uses Dinic's algorithm: exact,
/// and deterministic.
class MinCut {
public:
  static constexpr unsigned kSource = 0, kSink = 1;
  /// The capacity of an edge that must not be cut.
  static constexpr int64_t kInfinite = int64_t(1) << 61;

  MinCut();

  unsigned addNode();
  /// Adds an edge. Its capacity is paid if `from` is on the source's side and
  /// `to` is not.
  void addEdge(unsigned from, unsigned to, int64_t capacity);

  /// Returns the cost of the cheapest cut; nullopt if every cut contains an
  /// infinite edge.
  std::optional<int64_t> solve();

  /// True if `node` is on the sink's side. Call after `solve`. If several cuts
  /// are cheapest, the cut with the fewest nodes on the sink's side counts.
  bool isWithSink(unsigned node) const {
    assert(node < withSink.size() && "solve has run after the last addNode");
    return withSink.test(node);
  }

private:
  struct Edge {
    unsigned to;
    /// The capacity not yet used by flow. Edges 2 i and 2 i + 1 are each
    /// other's reverse.
    int64_t left;
  };

  bool findLevels();
  int64_t push();
  void findSinkSide();

  llvm::SmallVector<Edge> edges;
  llvm::SmallVector<llvm::SmallVector<unsigned, 4>> edgesOf;
  /// The distance of each node from the source, and its next edge to try.
  llvm::SmallVector<unsigned> level, next;
  llvm::BitVector withSink;
};

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_MINCUT_H
