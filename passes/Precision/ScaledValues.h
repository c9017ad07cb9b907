// Which values carry the loss scale.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_SCALEDVALUES_H
#define MPC_PASSES_PRECISION_SCALEDVALUES_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseSet.h"

namespace mpc::amp {

/// Whether the function updates parameters or the state of an optimizer,
/// whatever ops it does that with: there, gradients are unscaled as they enter
/// the update. Elsewhere sums of gradients stay scaled.
bool updatesParameters(mlir::FunctionOpInterface function);

/// Whether gradients must be unscaled before this op reads them: it belongs to
/// the update, not to the backward pass.
bool belongsToUpdate(mlir::Operation *op);

/// The float values of a function that are multiples of the loss scale: what
/// derives from a scaled seed or an accumulator, up to where it is unscaled.
/// The backward pass is linear in the seed, so every such value carries the
/// scale exactly once.
llvm::DenseSet<mlir::Value>
findScaledValues(mlir::FunctionOpInterface function);

/// The results as which a scaled value may leave the function: the new values
/// of accumulators.
llvm::DenseSet<unsigned> findScaledResults(mlir::FunctionOpInterface function);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_SCALEDVALUES_H
