// Verifies the constants that the Precision stage makes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_STAGECONSTANTS_H
#define MPC_PASSES_PRECISION_STAGECONSTANTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mpc::amp {

/// Reports a float constant in the output of a mixed mode that is none of:
/// - a constant of the model, with a record and in the recorded type;
/// - a constant of the model rounded to `low`, with the summary of the elements
///   before rounding;
/// - a seed of ones that no forward op reads;
/// - a loss scale.
void verifyConstant(
    mpc::ConstantOp op, mlir::FloatType low,
    llvm::function_ref<mlir::InFlightDiagnostic(mlir::Operation *)> report);

/// True if `value` is a constant tensor of ones.
bool isOne(mlir::Value value);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_STAGECONSTANTS_H
