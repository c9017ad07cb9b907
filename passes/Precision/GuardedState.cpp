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
  // `mpc.micro_step` counts forward passes, so skipped steps count too.
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
  // Operands are the parameter, the gradient and the states; results are the
  // parameter and the states. So result i > 0 replaces operand i + 1.
  unsigned index = result.getResultNumber();
  return op->getOperand(index == 0 ? 0 : index + 1);
}
