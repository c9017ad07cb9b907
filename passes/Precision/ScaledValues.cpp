// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/ScaledValues.h"

#include "passes/Precision/GuardedState.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

bool amp::belongsToUpdate(Operation *op) {
  if (isa<OptimizerOpInterface, ClipGradNormOp>(op))
    return true;
  return getPhase(op) == Phase::Optimizer;
}

bool amp::updatesParameters(FunctionOpInterface function,
                            const VariableTable &variables) {
  for (unsigned i = 0, count = function.getNumResults(); i < count; ++i) {
    VariableOp variable = getUpdatedVariable(function, i, variables);
    if (variable && isGuarded(variable) && variable.getRole() != Role::Counter)
      return true;
  }
  return function
      ->walk([](OptimizerOpInterface) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

// True if `state` names an accumulator.
static bool isAccumulator(FlatSymbolRefAttr state,
                          const VariableTable &variables) {
  VariableOp variable = variables.lookupVariable(state);
  return variable && variable.getRole() == Role::Accumulator;
}

llvm::DenseSet<unsigned>
amp::findScaledResults(FunctionOpInterface function,
                       const VariableTable &variables) {
  llvm::DenseSet<unsigned> results;
  for (unsigned i = 0, count = function.getNumResults(); i < count; ++i)
    if (isAccumulator(getResultPort(function, i).getUpdated(), variables))
      results.insert(i);
  return results;
}

// Adds to `scaled` all values of `block` that are multiples of the scale.
// Operands come before users, so one pass over the block suffices.
static void propagate(Block &block, bool stopsAtUpdate,
                      llvm::DenseSet<Value> &scaled);

// Adds to `scaled` the values of a loop's body, and the results of the loop. If
// an iteration yields a scaled carried value, the value is scaled in the next
// iteration too, so repeats until nothing is added.
static void propagate(BodyOpInterface op, Block &body, bool stopsAtUpdate,
                      llvm::DenseSet<Value> &scaled) {
  for (BlockArgument argument : body.getArguments())
    if (scaled.contains(op.getTiedOperand(argument).get()))
      scaled.insert(argument);
  ValueRange yielded = body.getTerminator()->getOperands();
  for (bool changed = true; changed;) {
    propagate(body, stopsAtUpdate, scaled);
    changed = false;
    for (unsigned i = 0; i < op.getNumCarried(); ++i)
      if (scaled.contains(yielded[i]))
        changed |= scaled.insert(body.getArgument(i)).second;
  }
  for (auto [result, value] : llvm::zip(op->getResults(), yielded))
    if (scaled.contains(value))
      scaled.insert(result);
}

static void propagate(Block &block, bool stopsAtUpdate,
                      llvm::DenseSet<Value> &scaled) {
  for (Operation &op : block) {
    if (auto list = dyn_cast<BodyOpInterface>(op)) {
      for (Region &body : op.getRegions())
        propagate(list, body.front(), stopsAtUpdate, scaled);
      continue;
    }
    // A value is scaled if it is amp.scale_loss, or if an operand of its op is
    // scaled.
    bool carries = isa<ScaleLossOp>(op) ||
                   llvm::any_of(op.getOperands(), [&](Value operand) {
                     return scaled.contains(operand);
                   });
    // amp.unscale removes the scale. Ops of the update compute parameters and
    // state, which carry no scale.
    if (!carries || isa<UnscaleOp>(op) ||
        (stopsAtUpdate && belongsToUpdate(&op)))
      continue;
    for (Value result : op.getResults())
      if (isa<FloatType>(getElementTypeOrSelf(result.getType())))
        scaled.insert(result);
  }
}

llvm::DenseSet<Value> amp::findScaledValues(FunctionOpInterface function,
                                            const VariableTable &variables) {
  llvm::DenseSet<Value> scaled;
  for (BlockArgument argument : function.getArguments())
    if (isAccumulator(getArgumentPort(argument).getState(), variables))
      scaled.insert(argument);
  propagate(function.getFunctionBody().front(),
            updatesParameters(function, variables), scaled);
  return scaled;
}
