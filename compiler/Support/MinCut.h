// The cheapest edges that part a source from a sink.
//
// A choice between two ways for each of many things is such a cut, where a
// thing costs something either way, or where two of them differ. For example, y
// = exp(x) is stored for 5 or computed again for 2, which takes x, to be stored
// for 4: edges source -> y of 2, y -> x that cannot be cut, x -> sink of 4, and
// y -> sink of 5, where who is on the source's side is stored.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_SUPPORT_MINCUT_H
#define MPC_COMPILER_SUPPORT_MINCUT_H

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace mpc {

/// A directed graph with a capacity on each edge. By Dinic's algorithm, exactly
/// and in the same order every time.
class MinCut {
public:
  static constexpr unsigned kSource = 0, kSink = 1;
  /// Of an edge that cannot be cut.
  static constexpr int64_t kInfinite = int64_t(1) << 61;

  MinCut();

  unsigned addNode();
  /// Paid where `from` is on the source's side and `to` is not.
  void addEdge(unsigned from, unsigned to, int64_t capacity);

  /// What the cheapest cut costs; nothing where every cut has an edge that
  /// cannot be cut.
  std::optional<int64_t> solve();

  /// After `solve`: whether `node` is on the sink's side of the cheapest cut
  /// that has the fewest nodes there.
  bool isWithSink(unsigned node) const { return withSink.test(node); }

private:
  struct Edge {
    unsigned to;
    /// What can still flow along it; its reverse has the next odd number.
    int64_t left;
  };

  bool findLevels();
  int64_t push();
  void findSinkSide();

  llvm::SmallVector<Edge> edges;
  llvm::SmallVector<llvm::SmallVector<unsigned, 4>> edgesOf;
  /// How far each node is from the source, and the edge to try next.
  llvm::SmallVector<unsigned> level, next;
  llvm::BitVector withSink;
};

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_MINCUT_H
