// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/GuardedState.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

bool amp::isGuarded(VariableOp variable) {
  static constexpr Role roles[] = {Role::Parameter, Role::Frozen,
                                   Role::OptimizerState, Role::Average,
                                   Role::Counter};
  // `mpc.micro_step` counts forward passes, also in skipped steps.
  return llvm::is_contained(roles, variable.getRole()) &&
         variable.getSymName() != kMicroStepVariable;
}

VariableOp amp::getUpdatedVariable(FunctionOpInterface function, unsigned index,
                                   const VariableTable &variables) {
  return variables.lookupVariable(getResultPort(function, index).getUpdated());
}

std::optional<MutableOperandRange> amp::getCondition(Operation *op) {
  if (auto optimizer = dyn_cast<OptimizerOpInterface>(op))
    return optimizer.getApplyOperand();
  if (auto increment = dyn_cast<IncrementOp>(op))
    return increment.getApplyMutable();
  return std::nullopt;
}

Value amp::getReplacedOperand(OpResult result) {
  Operation *op = result.getOwner();
  if (auto increment = dyn_cast<IncrementOp>(op))
    return increment.getCounter();
  if (!isa<OptimizerOpInterface>(op))
    return {};
  // The operands are the parameter, the gradient, then the states in the order
  // of the results.
  unsigned index = result.getResultNumber();
  return op->getOperand(index == 0 ? 0 : index + 1);
}
