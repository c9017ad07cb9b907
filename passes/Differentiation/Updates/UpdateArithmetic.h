// Builds arithmetic that several optimizers share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_UPDATES_UPDATEARITHMETIC_H
#define MPC_PASSES_DIFFERENTIATION_UPDATES_UPDATEARITHMETIC_H

#include "mlir/IR/Builders.h"

namespace mpc {

/// Returns a constant of rank 0.
mlir::Value createScalar(mlir::OpBuilder &b, mlir::Location loc, double value,
                         mlir::Type element);

/// Returns `value` * `factor`.
mlir::Value scaleBy(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                    double factor);

/// Returns the moving average `beta` * `old` + (1 - `beta`) * `next`.
mlir::Value averageOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value old,
                      mlir::Value next, double beta);

/// Returns the L2 norm of all elements, a tensor of rank 0.
mlir::Value normOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_UPDATES_UPDATEARITHMETIC_H
