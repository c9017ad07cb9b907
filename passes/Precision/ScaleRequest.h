// Verifies that the module scales the loss as the user has requested.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_SCALEREQUEST_H
#define MPC_PASSES_PRECISION_SCALEREQUEST_H

#include "compiler/Dialect/MPC/Facts/VariableTable.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mpc::amp {

/// Reports a scaled seed that is not 1, and an initial loss scale that is not
/// finite and above 0. If the module has a request and a backward pass, also
/// reports a kind of loss scale that differs from the request. Each op must
/// scale or unscale by the requested number, or by the state of a dynamic
/// scale.
void verifyScaleRequest(
    mlir::ModuleOp module, const mpc::VariableTable &variables,
    llvm::function_ref<mlir::InFlightDiagnostic(mlir::Operation *)> report);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_SCALEREQUEST_H
