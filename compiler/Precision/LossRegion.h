// Finds the ops of a module's losses and of the losses' gradients.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_LOSSREGION_H
#define MPC_COMPILER_PRECISION_LOSSREGION_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"

namespace mpc {

/// Returns all ops of the losses, back to the first contraction or
/// normalisation on each path, and of their gradients. Paths run through loops
/// and branches.
llvm::DenseSet<mlir::Operation *> findLossRegion(mlir::ModuleOp module);

/// Returns ops that compute only with constants and the seed of a backward pass
/// (the loss's gradient by itself, equal to the loss scale). Their results are
/// multiples of the loss scale, which a low type may not hold.
llvm::DenseSet<mlir::Operation *> findMultiplesOfSeed(mlir::ModuleOp module);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_LOSSREGION_H
