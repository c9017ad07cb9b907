// Converts ops from training mode to inference mode.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_INFERENCEMODE_H
#define MPC_PASSES_DIFFERENTIATION_INFERENCEMODE_H

#include "compiler/Dialect/MPC/MPC.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// Replaces a BatchNormalization by one that uses its running statistics and
/// leaves them unchanged. No op may read the batch statistics that `norm`
/// saves.
void convertToInference(BatchNormOp norm);

/// Converts all ops of a function to inference mode: BatchNormalization uses
/// its running statistics, dropout returns its input, and attention drops no
/// weights.
void convertToInference(mlir::func::FuncOp function);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_INFERENCEMODE_H
