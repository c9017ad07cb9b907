// Tells which values of a function are multiples of the loss scale.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_SCALEDVALUES_H
#define MPC_PASSES_PRECISION_SCALEDVALUES_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/Facts/VariableTable.h"
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseSet.h"

namespace mpc::amp {

/// True if the function updates parameters or optimizer state, by optimizer ops
/// or other ops. Such a function unscales gradients where they enter the
/// update. In other functions, such as @accumulate, sums of gradients stay
/// scaled.
bool updatesParameters(mlir::FunctionOpInterface function,
                       const VariableTable &variables);

/// True if `op` belongs to the update instead of the backward pass. Gradients
/// that `op` reads must be unscaled.
bool belongsToUpdate(mlir::Operation *op);

/// Returns the float values that are multiples of the loss scale: everything
/// computed from a scaled seed or an accumulator, until unscaled. The backward
/// pass is linear in the seed, so each value carries the scale once.
llvm::DenseSet<mlir::Value> findScaledValues(mlir::FunctionOpInterface function,
                                             const VariableTable &variables);

/// Returns the numbers of the function's results that may be scaled: updates of
/// accumulators.
llvm::DenseSet<unsigned> findScaledResults(mlir::FunctionOpInterface function,
                                           const VariableTable &variables);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_SCALEDVALUES_H
