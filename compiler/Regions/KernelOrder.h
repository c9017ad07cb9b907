// Which ops have been joined, and an order in which what they were joined to
// can run.
//
// Joining two kernels is only allowed where no path leads from one to the other
// through a third: it would have to run between them. The order makes that
// question cheap: a path can only pass kernels that lie between the two. So
// does a tree of paths, since a path stays one whatever is joined.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_KERNELORDER_H
#define MPC_COMPILER_REGIONS_KERNELORDER_H

#include "compiler/Regions/OrderedList.h"

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// Groups of the ops of one block, in a topological order that is kept up to
/// date. At first every op is a group of its own, and their order is the
/// block's.
class KernelOrder {
public:
  explicit KernelOrder(mlir::Block &block);

  /// The group `op` is in; `op` is in the block.
  unsigned getGroup(mlir::Operation *op) const {
    assert(indexOf.contains(op) && "an op of the block");
    return groupOf[indexOf.lookup(op)];
  }

  /// Joins two groups under the number of one of them, unless a path leads from
  /// one to the other through a third. Takes time in proportion to what depends
  /// on the first and lies before the second, or to what the second depends on
  /// and lies behind the first, whichever is less.
  bool tryJoin(unsigned a, unsigned b);

  /// The invariant, for assertions: every group stands before the groups that
  /// depend on it.
  bool isTopological() const;

private:
  /// What ops depend on, or what depends on them.
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
  /// A depth-first search of the users: an op reaches those that the search
  /// entered before it left that op.
  llvm::SmallVector<unsigned> entered, left;
  /// By op and by group.
  llvm::SmallVector<unsigned> groupOf;
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>> members;
  /// The op of each group that the most is known to be reached from.
  llvm::SmallVector<unsigned> top;
  OrderedList order;
  /// The search that last came by each group.
  llvm::SmallVector<unsigned> seenBy;
  unsigned numSearches = 0;
};

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_KERNELORDER_H
