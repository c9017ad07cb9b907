// Finds the ops that compute a value, across the edges of kernels, loops and
// branches, and through ops that only move elements.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_VALUESOURCES_H
#define MPC_PASSES_FUSION_VALUESOURCES_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc {

class ValueSources {
public:
  /// `module` may have loops and branches as ops with bodies, or as functions
  /// (`mpc-outline-bodies`).
  explicit ValueSources(mlir::ModuleOp module);

  /// Tells which edges listRoots follows back.
  enum class Edges {
    Kernels, ///< edges of kernels, and moved elements
    All      ///< also edges of loops and branches
  };

  /// Returns the values whose elements `value` has: results of ops that
  /// compute, constants, and arguments that a function's caller provides. Stops
  /// at edges that `edges` leaves out.
  llvm::SmallVector<mlir::Value, 2> listRoots(mlir::Value value,
                                              Edges edges = Edges::All) const;

private:
  void addBody(mlir::Operation *call, mlir::FlatSymbolRefAttr body);
  llvm::SmallVector<mlir::Value, 2> listSources(mlir::Value value,
                                                Edges edges) const;
  llvm::SmallVector<mlir::Value, 2> listBodySources(mlir::Value value) const;

  mlir::SymbolTable symbols;
  /// The ops that call a function that was a body.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *, 1>>
      calls;
};

/// True if `op` only moves elements, so that results are as exact as operands.
bool keepsElements(mlir::Operation *op);

/// True if `op` computes with floats: it is no constant, no terminator, moves
/// no elements, and has no body.
bool computes(mlir::Operation *op);

} // namespace mpc

#endif // MPC_PASSES_FUSION_VALUESOURCES_H
