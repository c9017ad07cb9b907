// Tells which state a skipped step must not change (parameters, moments,
// averages, the step count), and which ops skip the change themselves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_GUARDEDSTATE_H
#define MPC_PASSES_PRECISION_GUARDEDSTATE_H

#include "compiler/Dialect/MPC/Facts/VariableTable.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mpc::amp {

/// True if a step with overflowing gradients must not change the variable.
/// Guarded: parameters, everything that an update keeps (moments, averages,
/// learning rates) and the count of updates. Not guarded: state that counts or
/// measures forward passes, namely `mpc.micro_step`, finite BatchNormalization
/// statistics, and the loss scale. Accumulators start again, since their sums
/// are lost.
bool isGuarded(mpc::VariableOp variable);

/// Returns the variable that result `index` of `function` updates, or null.
mpc::VariableOp getUpdatedVariable(mlir::FunctionOpInterface function,
                                   unsigned index,
                                   const mpc::VariableTable &variables);

/// Returns the condition of an op that can leave state unchanged, such as the
/// `apply` operand of `mpc.sgd`; nullopt for other ops.
std::optional<mlir::MutableOperandRange> getCondition(mlir::Operation *op);

/// Returns the operand that `result` equals if the condition of the op is
/// false; null if the op has no condition.
mlir::Value getReplacedOperand(mlir::OpResult result);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_GUARDEDSTATE_H
