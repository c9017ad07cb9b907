// Which ops have been joined, and an order in which what they were joined to
// can run.
//
// Joining two kernels is only allowed where no path leads from one to the other
// through a third: it would have to run between them. The order makes that
// question cheap: a path can only pass kernels that lie between the two.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ANALYSIS_KERNELORDER_H
#define MPC_COMPILER_ANALYSIS_KERNELORDER_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace mpc {

/// Groups of the ops of one block, in a topological order that is kept up to
/// date. At first every op is a group of its own, and their order is the
/// block's.
class KernelOrder {
public:
  explicit KernelOrder(mlir::Block &block);

  /// The group `op` is in; `op` is in the block.
  unsigned getGroup(mlir::Operation *op) const { return groupOf.lookup(op); }

  /// Joins two groups, unless a path leads from one to the other through a
  /// third. Takes time in proportion to what lies between them.
  bool tryJoin(unsigned a, unsigned b);

private:
  /// The groups that come before `last` and depend on `first`; nothing where
  /// `last` depends on one of them.
  std::optional<llvm::SmallVector<unsigned>> findBetween(unsigned first,
                                                         unsigned last) const;

  mlir::Block &block;
  llvm::DenseMap<mlir::Operation *, unsigned> groupOf;
  llvm::SmallVector<llvm::SmallVector<mlir::Operation *, 2>> ops;
  /// Groups in order, with kNone where one was joined to another.
  llvm::SmallVector<unsigned> order;
  llvm::SmallVector<unsigned> positionOf;
};

} // namespace mpc

#endif // MPC_COMPILER_ANALYSIS_KERNELORDER_H
