// State that a skipped step must not change (parameters, moments, averages, the
// step's count), and the optimizers' ops that see to it themselves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_GUARDEDSTATE_H
#define MPC_PASSES_PRECISION_GUARDEDSTATE_H

#include "compiler/Dialect/MPC/Facts/VariableTable.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mpc::amp {

/// Whether a step with an overflow in its gradients must not change the
/// variable: parameters, everything an update keeps from step to step (moments,
/// averages, learning rates) and the count of updates. What counts or measures
/// forward passes goes on: BatchNormalization statistics as long as they are
/// finite, `mpc.micro_step`, the loss scale itself; accumulators start again,
/// since their sums are lost.
bool isGuarded(mpc::VariableOp variable);

/// The variable that result `index` of a function is the new value of, or null.
mpc::VariableOp getUpdatedVariable(mlir::FunctionOpInterface function,
                                   unsigned index,
                                   const mpc::VariableTable &variables);

/// The condition of an op that can leave state as it is, `apply` of `mpc.sgd`
/// for one; nothing for other ops.
std::optional<mlir::MutableOperandRange> getCondition(mlir::Operation *op);

/// The operand that `result` equals where the condition of its op is false;
/// null where the op has no condition.
mlir::Value getReplacedOperand(mlir::OpResult result);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_GUARDEDSTATE_H
