// Tells which state a skipped step must keep (parameters, moments, averages,
// the step count), and which ops can keep state by a condition operand. A step
// is skipped if its gradients overflow.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_GUARDEDSTATE_H
#define MPC_PASSES_PRECISION_GUARDEDSTATE_H

#include "compiler/Dialect/MPC/Facts/VariableTable.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mpc::amp {

/// True if a skipped step must not change the variable. Guarded are parameters,
/// all state of the update (moments, averages, learning rates), and the number
/// of updates. Not guarded is state that counts or measures forward passes
/// (`mpc.micro_step`, finite BatchNormalization statistics), and the loss
/// scale. Accumulators are reset to zero, since their sums are lost.
bool isGuarded(mpc::VariableOp variable);

/// Returns the variable that receives result `index` of `function`; null if the
/// result updates no variable.
mpc::VariableOp getUpdatedVariable(mlir::FunctionOpInterface function,
                                   unsigned index,
                                   const mpc::VariableTable &variables);

/// Returns the condition operand of an op that can leave state unchanged, such
/// as `apply` of `mpc.sgd`; nullopt for ops without such an operand.
std::optional<mlir::MutableOperandRange> getCondition(mlir::Operation *op);

/// Returns the operand that `result` equals if the condition of its op is
/// false; null if the op has no condition.
mlir::Value getReplacedOperand(mlir::OpResult result);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_GUARDEDSTATE_H
