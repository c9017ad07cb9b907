// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/UpdateGuards.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "passes/Precision/GuardedState.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

// True if `flag` is surely false if any of `gradients` is not finite: `flag` is
// amp.all_finite of all gradients, or the conjunction of this test with a
// condition of the model.
static bool testsAll(Value flag, ArrayRef<Value> gradients) {
  auto testsThem = [&](Value value) {
    auto test = value.getDefiningOp<AllFiniteOp>();
    if (!test)
      return false;
    llvm::SmallPtrSet<Value, 8> tested(test.getInputs().begin(),
                                       test.getInputs().end());
    return llvm::all_of(
        gradients, [&](Value gradient) { return tested.contains(gradient); });
  };
  auto both = flag.getDefiningOp<AndOp>();
  return testsThem(flag) ||
         (both && (testsThem(both.getLhs()) || testsThem(both.getRhs())));
}

// True if `next` equals `old` whenever any of `gradients` is not finite. Does
// not look at the condition of an optimizer op: the caller verifies these
// conditions.
static bool keepsState(Value next, Value old, ArrayRef<Value> gradients) {
  if (!old || next == old)
    return static_cast<bool>(old);
  if (auto select = next.getDefiningOp<SelectOp>())
    return select.getOnFalse() == old &&
           testsAll(select.getCondition(), gradients);
  auto result = dyn_cast<OpResult>(next);
  if (!result || getReplacedOperand(result) != old)
    return false;
  assert(getCondition(result.getOwner()) && "an op that replaces state");
  MutableOperandRange condition = *getCondition(result.getOwner());
  return condition.size() == 1 &&
         (isa<OptimizerOpInterface>(result.getOwner()) ||
          testsAll(condition[0].get(), gradients));
}

void amp::verifyUpdateGuards(
    FunctionOpInterface function, ArrayRef<Value> gradients,
    const VariableTable &variables,
    llvm::function_ref<InFlightDiagnostic(Operation *)> report) {
  // Every optimizer op needs a condition that tests all gradients.
  function->walk([&](OptimizerOpInterface op) {
    MutableOperandRange condition = op.getApplyOperand();
    if (condition.empty())
      report(op)
          << "expected a condition, since gradients can overflow, found none";
    else if (!testsAll(condition[0].get(), gradients))
      report(op) << "expected amp.all_finite of all gradients of the update "
                    "as the condition";
  });
  // All other guarded state must keep its old value if a gradient is not
  // finite.
  llvm::DenseMap<Operation *, Value> states;
  for (BlockArgument argument : function.getArguments())
    if (VariableOp variable =
            variables.lookupVariable(getArgumentPort(argument).getState()))
      states[variable] = argument;
  Operation *terminator = getReturn(function);
  for (OpOperand &result : terminator->getOpOperands()) {
    VariableOp variable =
        getUpdatedVariable(function, result.getOperandNumber(), variables);
    if (variable && isGuarded(variable) &&
        !keepsState(result.get(), states.lookup(variable), gradients))
      report(terminator) << "updates @" << variable.getSymName()
                         << " even in a step with a gradient that is not "
                            "finite: expected the old value";
  }
}
