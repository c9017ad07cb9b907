// Finds the cheapest set of edges that separates a source from a sink.
//
// A minimum cut solves a choice between two options for each of many things, if
// options or pairs of different options have costs. For example, y = exp(x) is
// stored for 5, or recomputed for 2, which needs x, stored for 4. Let y on the
// sink's side mean that y is recomputed, and x there that x is stored. The
// edges are: source -> y of 2, y -> sink of 5, source -> x of 4, and an edge
// x -> y that cannot be cut, which forbids recomputing y without x.
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

  /// True if `node` is on the sink's side. Call after `solve`. Among the
  /// cheapest cuts, the one with the fewest nodes on the sink's side counts.
  bool isWithSink(unsigned node) const {
    assert(node < withSink.size() && "solve has run after the last addNode");
    return withSink.test(node);
  }

private:
  struct Edge {
    unsigned to;
    /// The remaining capacity. Edges 2 i and 2 i + 1 are each other's reverse.
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
