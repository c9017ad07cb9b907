// Walks ops backwards and applies gradient rules.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_BACKWARDPASS_H
#define MPC_PASSES_DIFFERENTIATION_BACKWARDPASS_H

#include "passes/Differentiation/GradientRules.h"

namespace mpc {

/// Returns the ops of `block` before `end` through which a derivative flows
/// from the values in `active` to the differentiated value. `sources` holds all
/// values that the differentiated value depends on. Adds all values on the way
/// to `active`.
llvm::SmallVector<mlir::Operation *>
findActiveOps(mlir::Block &block, mlir::Operation *end,
              const llvm::DenseSet<mlir::Value> &sources,
              llvm::DenseSet<mlir::Value> &active);

/// Applies the gradient rules of `ops`, from the last op to the first. If ops
/// have no rule, reports all of these and applies none.
mlir::LogicalResult runBackwards(llvm::ArrayRef<mlir::Operation *> ops,
                                 GradientBuilder &gradients);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_BACKWARDPASS_H
