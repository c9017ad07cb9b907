// Proves that a step with an overflow changes no state.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_UPDATEGUARDS_H
#define MPC_PASSES_PRECISION_UPDATEGUARDS_H

#include "compiler/Dialect/MPC/Facts/VariableTable.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mpc::amp {

/// Reports every update of `function` that would happen although one of
/// `gradients` is infinite or NaN. `gradients` are all gradients that the
/// function unscales. Reported are optimizer ops whose condition is not
/// `amp.all_finite` of all gradients, and state results kept neither by such a
/// condition nor by a select.
void verifyUpdateGuards(
    mlir::FunctionOpInterface function, llvm::ArrayRef<mlir::Value> gradients,
    const mpc::VariableTable &variables,
    llvm::function_ref<mlir::InFlightDiagnostic(mlir::Operation *)> report);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_UPDATEGUARDS_H
