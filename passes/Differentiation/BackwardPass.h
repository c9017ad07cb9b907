// Walks ops backwards and applies gradient rules.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_BACKWARDPASS_H
#define MPC_PASSES_DIFFERENTIATION_BACKWARDPASS_H

#include "passes/Differentiation/GradientRules.h"

namespace mpc {

/// Returns the ops of `block` before `end` that pass a derivative from a value
/// in `active` to a value in `sources`. `sources` holds all values that the
/// differentiated value depends on. Adds the values in between to `active`.
llvm::SmallVector<mlir::Operation *>
findActiveOps(mlir::Block &block, mlir::Operation *end,
              const llvm::DenseSet<mlir::Value> &sources,
              llvm::DenseSet<mlir::Value> &active);

/// Applies the rules from the last op to the first. Reports all ops without a
/// rule before applying any.
mlir::LogicalResult runBackwards(llvm::ArrayRef<mlir::Operation *> ops,
                                 GradientBuilder &gradients);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_BACKWARDPASS_H
