// The ops of a module's losses and of their gradients.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_LOSSREGION_H
#define MPC_COMPILER_PRECISION_LOSSREGION_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"

namespace mpc {

/// All ops of the losses, back to the first contraction or normalisation on
/// each way, and of their gradients. Ways go through loops and branches.
llvm::DenseSet<mlir::Operation *> findLossRegion(mlir::ModuleOp module);

/// Ops that read the seed of a backward pass and constants alone: the loss
/// scale times some factor, which low types may not hold.
llvm::DenseSet<mlir::Operation *> findMultiplesOfSeed(mlir::ModuleOp module);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_LOSSREGION_H
