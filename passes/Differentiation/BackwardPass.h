// The walk backwards over ops, with the table of rules.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_BACKWARDPASS_H
#define MPC_PASSES_DIFFERENTIATION_BACKWARDPASS_H

#include "passes/Differentiation/GradientRules.h"

namespace mpc {

/// The ops of `block` before `end` that a derivative passes through on its way
/// from one of `sources`, the values that something depends on, to a value that
/// is in `active` already; `active` receives the values between.
llvm::SmallVector<mlir::Operation *>
findActiveOps(mlir::Block &block, mlir::Operation *end,
              const llvm::DenseSet<mlir::Value> &sources,
              llvm::DenseSet<mlir::Value> &active);

/// Applies the rules from the last op to the first. Reports all ops that have
/// none before it begins.
mlir::LogicalResult runBackwards(llvm::ArrayRef<mlir::Operation *> ops,
                                 GradientBuilder &gradients);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_BACKWARDPASS_H
