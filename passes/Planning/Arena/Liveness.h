// Computes the last use of every value in a function of kernel calls.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_ARENA_LIVENESS_H
#define MPC_PASSES_PLANNING_ARENA_LIVENESS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// Maps each contraction whose library calls an epilogue kernel to the call op
/// of the epilogue.
using EpilogueCalls = llvm::DenseMap<mlir::Operation *, mlir::func::CallOp>;
EpilogueCalls findEpilogues(mlir::Block &block,
                            const mlir::SymbolTable &symbols);

/// The position of each op in a block, and the position of the last use of each
/// value. A use of a view counts as a use of the viewed value.
class Liveness {
public:
  Liveness(mlir::Block &block, const EpilogueCalls &epilogueOf);
  unsigned lastUse(mlir::Value value) const { return last.lookup(root(value)); }
  unsigned position(mlir::Operation *op) const {
    assert(positions.contains(op) && "an op of the block");
    return positions.lookup(op);
  }
  /// Follows views such as reshapes and returns the value whose memory `value`
  /// shares.
  static mlir::Value root(mlir::Value value);

private:
  llvm::DenseMap<mlir::Value, unsigned> last;
  llvm::DenseMap<mlir::Operation *, unsigned> positions;
};

} // namespace mpc

#endif // MPC_PASSES_PLANNING_ARENA_LIVENESS_H
