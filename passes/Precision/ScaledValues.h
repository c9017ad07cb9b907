// Tells which values carry the loss scale.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_SCALEDVALUES_H
#define MPC_PASSES_PRECISION_SCALEDVALUES_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseSet.h"

namespace mpc::amp {

/// True if the function updates parameters or optimizer state, by whatever ops.
/// Gradients are then unscaled as they enter the update. In other functions,
/// sums of gradients stay scaled.
bool updatesParameters(mlir::FunctionOpInterface function);

/// True if `op` belongs to the update instead of the backward pass, so
/// gradients must be unscaled before `op`.
bool belongsToUpdate(mlir::Operation *op);

/// Returns the float values of a function that are multiples of the loss scale:
/// all values that derive from a scaled seed or an accumulator, until unscaled.
/// The backward pass is linear in the seed, so each such value carries the
/// scale exactly once.
llvm::DenseSet<mlir::Value>
findScaledValues(mlir::FunctionOpInterface function);

/// Returns the indices of results that may be scaled: the new values of
/// accumulators.
llvm::DenseSet<unsigned> findScaledResults(mlir::FunctionOpInterface function);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_SCALEDVALUES_H
