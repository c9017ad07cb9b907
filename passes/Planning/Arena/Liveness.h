// When the values of a function of kernel calls are last used.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_ARENA_LIVENESS_H
#define MPC_PASSES_PLANNING_ARENA_LIVENESS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// The calls that consume contractions tile by tile, by contraction.
using EpilogueCalls = llvm::DenseMap<mlir::Operation *, mlir::func::CallOp>;
EpilogueCalls findEpilogues(mlir::Block &block,
                            const mlir::SymbolTable &symbols);

/// When every value is last used, through views and by the caller too.
class Liveness {
public:
  Liveness(mlir::Block &block, const EpilogueCalls &epilogueOf);
  unsigned lastUse(mlir::Value value) const { return last.lookup(root(value)); }
  unsigned position(mlir::Operation *op) const { return positions.lookup(op); }
  /// The value whose memory a view is.
  static mlir::Value root(mlir::Value value);

private:
  llvm::DenseMap<mlir::Value, unsigned> last;
  llvm::DenseMap<mlir::Operation *, unsigned> positions;
};

} // namespace mpc

#endif // MPC_PASSES_PLANNING_ARENA_LIVENESS_H
