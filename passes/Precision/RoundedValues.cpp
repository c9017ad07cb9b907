// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/RoundedValues.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

bool amp::isRoundedByStage(Value value, const VariableTable &variables) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
  if (!type || type.getWidth() >= 32)
    return false;
  // For an argument of a loop or condition, look at the operand. An argument of
  // a function is rounded if it is the low copy of a parameter.
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (auto list =
            dyn_cast<BodyOpInterface>(argument.getOwner()->getParentOp()))
      return isRoundedByStage(list.getTiedOperand(argument).get(), variables);
    VariableOp variable =
        variables.lookupVariable(getArgumentPort(argument).getState());
    return variable && variable.getRole() == Role::Derived;
  }
  // A result is rounded if its op is a cast or a low op, or, for a loop or
  // condition, if every body yields a rounded value.
  Operation *op = value.getDefiningOp();
  if (isa<amp::CastOp>(op))
    return true;
  if (isa<BodyOpInterface>(op))
    return llvm::all_of(op->getRegions(), [&](Region &body) {
      unsigned index = cast<OpResult>(value).getResultNumber();
      return isRoundedByStage(body.front().getTerminator()->getOperand(index),
                              variables);
    });
  DecisionAttr decision = DecisionAttr::of(op);
  return decision && decision.isLowered();
}

// True if the op only moves the elements of one operand, and no flag forces the
// op to be low.
static bool isPlainMovement(Operation *op) {
  auto precise = dyn_cast_or_null<PrecisionOpInterface>(op);
  if (!precise || !precise.movesElements() || op->getNumOperands() != 1)
    return false;
  DecisionAttr decision = DecisionAttr::of(op);
  return !decision || decision.getReason() != Reason::ForceLow;
}

amp::CastOp amp::findRoundingCast(Value value) {
  while (isPlainMovement(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto cast = value.getDefiningOp<amp::CastOp>();
  if (!cast)
    return {};
  auto from =
      llvm::cast<FloatType>(getElementTypeOrSelf(cast.getInput().getType()));
  auto to = llvm::cast<FloatType>(getElementTypeOrSelf(cast.getType()));
  const llvm::fltSemantics &wide = from.getFloatSemantics();
  const llvm::fltSemantics &narrow = to.getFloatSemantics();
  bool keepsAll = APFloat::semanticsPrecision(wide) <=
                      APFloat::semanticsPrecision(narrow) &&
                  APFloat::semanticsMaxExponent(wide) <=
                      APFloat::semanticsMaxExponent(narrow) &&
                  APFloat::semanticsMinExponent(wide) >=
                      APFloat::semanticsMinExponent(narrow);
  return keepsAll ? amp::CastOp() : cast;
}
