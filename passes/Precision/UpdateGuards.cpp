// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/UpdateGuards.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "passes/Precision/GuardedState.h"
#include "passes/Precision/ScaledValues.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

namespace {
/// Tells which flags test all gradients of an update. Remembers the answers:
/// most state of an update has the same condition, and large models have many
/// gradients.
class FiniteTests {
public:
  explicit FiniteTests(ArrayRef<Value> gradients) : gradients(gradients) {}

  /// True if `flag` is amp.all_finite of all gradients.
  bool isTestOfAll(Value flag);
  /// True if `flag` is surely false if any gradient is not finite: `flag` is
  /// amp.all_finite of all gradients, or the conjunction of this test with a
  /// condition of the model.
  bool testsAll(Value flag);

private:
  ArrayRef<Value> gradients;
  llvm::DenseMap<Operation *, bool> known;
};
} // namespace

bool FiniteTests::isTestOfAll(Value flag) {
  auto test = flag.getDefiningOp<AllFiniteOp>();
  if (!test)
    return false;
  auto [answer, isNew] = known.try_emplace(test, false);
  if (isNew) {
    llvm::DenseSet<Value> tested(test.getInputs().begin(),
                                 test.getInputs().end());
    answer->second = llvm::all_of(
        gradients, [&](Value gradient) { return tested.contains(gradient); });
  }
  return answer->second;
}

bool FiniteTests::testsAll(Value flag) {
  auto both = flag.getDefiningOp<AndOp>();
  return isTestOfAll(flag) ||
         (both && (isTestOfAll(both.getLhs()) || isTestOfAll(both.getRhs())));
}

// Maps each variable that `function` reads to the argument with its value.
static llvm::DenseMap<Operation *, Value>
mapState(FunctionOpInterface function, const VariableTable &variables) {
  llvm::DenseMap<Operation *, Value> states;
  for (BlockArgument argument : function.getArguments())
    if (VariableOp variable =
            variables.lookupVariable(getArgumentPort(argument).getState()))
      states[variable] = argument;
  return states;
}

// True if `next` equals `old` whenever any gradient is not finite. Does not
// look at the condition of an optimizer op: the caller verifies these
// conditions.
static bool keepsState(Value next, Value old, FiniteTests &tests) {
  if (!old || next == old)
    return static_cast<bool>(old);
  if (auto select = next.getDefiningOp<SelectOp>())
    return select.getOnFalse() == old && tests.testsAll(select.getCondition());
  auto result = dyn_cast<OpResult>(next);
  if (!result || getReplacedOperand(result) != old)
    return false;
  assert(getCondition(result.getOwner()) && "an op that replaces state");
  MutableOperandRange condition = *getCondition(result.getOwner());
  return condition.size() == 1 &&
         (isa<OptimizerOpInterface>(result.getOwner()) ||
          tests.testsAll(condition[0].get()));
}

void amp::verifyUpdateGuards(
    FunctionOpInterface function, ArrayRef<Value> gradients,
    const VariableTable &variables,
    llvm::function_ref<InFlightDiagnostic(Operation *)> report) {
  FiniteTests tests(gradients);
  // Every optimizer op needs a condition that tests all gradients.
  function->walk([&](OptimizerOpInterface op) {
    MutableOperandRange condition = op.getApplyOperand();
    if (condition.empty())
      report(op)
          << "expected a condition, since gradients can overflow, found none";
    else if (!tests.testsAll(condition[0].get()))
      report(op) << "expected amp.all_finite of all gradients of the update "
                    "as the condition";
  });
  // All other guarded state must keep its old value if a gradient is not
  // finite.
  llvm::DenseMap<Operation *, Value> states = mapState(function, variables);
  Operation *terminator = getReturn(function);
  for (OpOperand &result : terminator->getOpOperands()) {
    VariableOp variable =
        getUpdatedVariable(function, result.getOperandNumber(), variables);
    // Each batch counts as a forward pass, or a skipped step would repeat its
    // random numbers.
    auto count = result.get().getDefiningOp<IncrementOp>();
    if (variable && variable.getSymName() == kMicroStepVariable && count &&
        count.getApply())
      report(terminator) << "counts no forward pass in @"
                         << variable.getSymName()
                         << " in a step with a gradient that is not finite";
    if (variable && isGuarded(variable) &&
        !keepsState(result.get(), states.lookup(variable), tests))
      report(terminator) << "updates @" << variable.getSymName()
                         << " even in a step with a gradient that is not "
                            "finite: expected the old value";
  }
}

void amp::verifyReplacedState(
    FunctionOpInterface function, const VariableTable &variables,
    llvm::function_ref<InFlightDiagnostic(Operation *)> report) {
  // Maps each new value to the variables that receive the value.
  llvm::DenseMap<Value, llvm::SmallVector<VariableOp, 1>> receivers;
  Operation *terminator = getReturn(function);
  for (OpOperand &result : terminator->getOpOperands())
    if (VariableOp variable =
            getUpdatedVariable(function, result.getOperandNumber(), variables))
      receivers[result.get()].push_back(variable);
  // Returns the state that an optimizer computes anew as `value`.
  auto findReplaced = [&](Value value) {
    auto next = dyn_cast<OpResult>(value);
    auto old = next && isa<OptimizerOpInterface>(next.getOwner())
                   ? dyn_cast_or_null<BlockArgument>(getReplacedOperand(next))
                   : BlockArgument();
    return old ? variables.lookupVariable(getArgumentPort(old).getState())
               : VariableOp();
  };
  llvm::SmallPtrSet<Operation *, 8> optimized;
  for (Value result : terminator->getOperands())
    optimized.insert(findReplaced(result));
  for (OpOperand &result : terminator->getOpOperands()) {
    VariableOp replaced = findReplaced(result.get());
    VariableOp variable =
        getUpdatedVariable(function, result.getOperandNumber(), variables);
    // A model's own update may store a new value beside the old: `variable`
    // then is no state of an optimizer.
    if (replaced && variable && optimized.contains(variable) &&
        !llvm::is_contained(receivers.lookup(result.get()), replaced))
      report(terminator) << "updates @" << variable.getSymName()
                         << " by the new value of @" << replaced.getSymName();
  }
}

// True if `next` is select(is_inf(x) or is_nan(x), old, x).
static bool staysFinite(Value next, Value old) {
  auto guard = next.getDefiningOp<SelectOp>();
  auto isBroken = guard ? guard.getCondition().getDefiningOp<OrOp>() : OrOp();
  if (!isBroken || guard.getOnTrue() != old)
    return false;
  bool testsInf = false, testsNaN = false;
  for (Value test : isBroken->getOperands()) {
    if (auto isInf = test.getDefiningOp<IsInfOp>())
      testsInf |= isInf->getOperand(0) == guard.getOnFalse() &&
                  isInf.getNegative() && isInf.getPositive();
    if (auto isNaN = test.getDefiningOp<IsNaNOp>())
      testsNaN |= isNaN->getOperand(0) == guard.getOnFalse();
  }
  return testsInf && testsNaN;
}

void amp::verifyStatisticGuards(
    FunctionOpInterface function, const VariableTable &variables,
    llvm::function_ref<InFlightDiagnostic(Operation *)> report) {
  llvm::DenseMap<Operation *, Value> states = mapState(function, variables);
  Operation *terminator = getReturn(function);
  for (OpOperand &result : terminator->getOpOperands()) {
    VariableOp variable =
        getUpdatedVariable(function, result.getOperandNumber(), variables);
    if (!variable || variable.getRole() != Role::Statistic ||
        !isa<FloatType>(variable.getTensorType().getElementType()))
      continue;
    Value old = states.lookup(variable);
    if (!old || (result.get() != old && !staysFinite(result.get(), old)))
      report(terminator) << "changes statistic @" << variable.getSymName()
                         << " where the new value is not finite";
  }
}

void amp::verifyScaleUpdate(
    FunctionOpInterface function, ArrayRef<Value> gradients,
    const VariableTable &variables,
    llvm::function_ref<InFlightDiagnostic(Operation *)> report) {
  llvm::DenseMap<Operation *, Value> states = mapState(function, variables);
  Operation *terminator = getReturn(function);
  FiniteTests tests(gradients);
  // The results of amp.update_scale that the function returns as new state.
  llvm::SmallPtrSet<Value, 4> returned;
  for (OpOperand &result : terminator->getOpOperands()) {
    if (getResultPort(function, result.getOperandNumber()).getRole() ==
            Role::Finite &&
        !tests.isTestOfAll(result.get()))
      report(terminator) << "expected amp.all_finite of all gradients of the "
                            "update as result "
                         << result.getOperandNumber();
    VariableOp variable =
        getUpdatedVariable(function, result.getOperandNumber(), variables);
    if (!variable || variable.getRole() != Role::LossScale)
      continue;
    Value next = result.get(), old = states.lookup(variable);
    auto update = next.getDefiningOp<UpdateScaleOp>();
    // Result i replaces operand i: the scale, good steps, hysteresis.
    if (update && old &&
        update->getOperand(cast<OpResult>(next).getResultNumber()) == old)
      returned.insert(next);
    else if (!old || next != old)
      report(terminator) << "changes @" << variable.getSymName()
                         << " by other means than amp.update_scale";
  }
  bool hasUpdate = false;
  function->walk([&](UpdateScaleOp op) {
    hasUpdate = true;
    if (!tests.isTestOfAll(op.getFinite()))
      report(op) << "expected amp.all_finite of all gradients of the update "
                    "as the condition";
    if (!llvm::all_of(op->getResults(),
                      [&](Value result) { return returned.contains(result); }))
      report(op) << "computes a new loss scale that the function does not "
                    "return";
  });
  if (!hasUpdate && updatesParameters(function, variables))
    report(function) << "updates parameters but never the loss scale";
}
