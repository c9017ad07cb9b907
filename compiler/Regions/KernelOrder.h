// Keeps groups of joined ops (future kernels), and an order in which the groups
// can run.
//
// Two kernels may only join if no path from one to the other leads through a
// third kernel, which would have to run in between. The order makes the test
// cheap: a path can only pass kernels that lie between the two in the order.
// The test also asks a depth-first tree of the ops, which stays valid when
// kernels join.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_KERNELORDER_H
#define MPC_COMPILER_REGIONS_KERNELORDER_H

#include "compiler/Regions/OrderedList.h"

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// Groups of the ops of one block, in a topological order. At first each op is
/// a group, in the order of the block. Joining groups updates the order.
class KernelOrder {
public:
  explicit KernelOrder(mlir::Block &block);

  /// Returns the group of `op`, an op of the block.
  unsigned getGroup(mlir::Operation *op) const {
    assert(indexOf.contains(op) && "an op of the block");
    return groupOf[indexOf.lookup(op)];
  }

  /// Joins two groups and returns true; the joint group has the number of one
  /// of the two. Returns false if a path between the groups leads through a
  /// third group. Let `a` be the earlier group. The time is proportional to the
  /// smaller of two sets: direct and indirect users of `a` before `b` in the
  /// order, and direct and indirect producers of `b` after `a`.
  bool tryJoin(unsigned a, unsigned b);

  /// The invariant, for assertions: true if every group is before all dependent
  /// groups.
  bool isTopological() const;

private:
  /// The edges of all ops in one direction: the users of each op, or the
  /// producers. Op i has the edges ends[begins[i]] to ends[begins[i + 1] - 1].
  class Edges {
  public:
    llvm::ArrayRef<unsigned> of(unsigned op) const {
      return llvm::ArrayRef(ends).slice(begins[op],
                                        begins[op + 1] - begins[op]);
    }
    llvm::SmallVector<unsigned> begins = {0}, ends;
  };
  struct Search;

  void findEdges(mlir::Block &block);
  void buildTree();
  bool isAbove(unsigned a, unsigned b) const {
    return entered[a] <= entered[b] && entered[b] < left[a];
  }
  bool isPathInTree(unsigned a, unsigned b) const;
  bool advance(Search &search, unsigned &source, unsigned &target) const;
  bool step(Search &search, const Search &other);
  bool findPath(Search &below, Search &above);
  void merge(unsigned place, unsigned other);

  llvm::DenseMap<mlir::Operation *, unsigned> indexOf;
  llvm::SmallVector<mlir::Operation *> ops;
  Edges users, producers;
  /// Times at which a depth-first search along users enters and leaves each op.
  /// An op reaches every op that is entered between these two times.
  llvm::SmallVector<unsigned> entered, left;
  /// The group of each op, and the ops of each group.
  llvm::SmallVector<unsigned> groupOf;
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>> members;
  /// For each group, the op that reaches the most ops in the depth-first tree.
  llvm::SmallVector<unsigned> top;
  OrderedList order;
  /// For each group, the number of the last search that visited the group.
  llvm::SmallVector<unsigned> seenBy;
  unsigned numSearches = 0;
};

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_KERNELORDER_H
