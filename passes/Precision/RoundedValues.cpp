// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/RoundedValues.h"

#include "compiler/Interfaces/TiedValues.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

// True if type `to` lacks some value of type `from`.
static bool rounds(FloatType from, FloatType to) {
  const llvm::fltSemantics &wide = from.getFloatSemantics();
  const llvm::fltSemantics &narrow = to.getFloatSemantics();
  return APFloat::semanticsPrecision(wide) >
             APFloat::semanticsPrecision(narrow) ||
         APFloat::semanticsMaxExponent(wide) >
             APFloat::semanticsMaxExponent(narrow) ||
         APFloat::semanticsMinExponent(wide) <
             APFloat::semanticsMinExponent(narrow);
}

// True if `value` is the result of a cast that rounds, a low copy, or a rounded
// constant.
static bool isRoundedByCast(Value value, const ModelTypes &types) {
  auto type = cast<FloatType>(getElementTypeOrSelf(value.getType()));
  if (auto made = value.getDefiningOp<amp::CastOp>()) {
    Type from = getElementTypeOrSelf(made.getInput().getType());
    return rounds(cast<FloatType>(from), type);
  }
  Operation *op = value.getDefiningOp();
  return (!op || op->hasTrait<OpTrait::ConstantLike>()) &&
         types.isRounded(value);
}

Value amp::findRounded(Value value, const ModelTypes &types,
                       IsForcedLow isForcedLow) {
  Value found;
  llvm::SmallSetVector<Value, 8> parts;
  parts.insert(value);
  for (unsigned i = 0; i < parts.size(); ++i)
    for (Value origin : listOrigins(parts[i])) {
      auto moved =
          dyn_cast_or_null<PrecisionOpInterface>(origin.getDefiningOp());
      if (isRoundedByCast(origin, types))
        found = origin;
      else if (!moved || !moved.movesElements() || isForcedLow(moved))
        return {};
      else
        for (Value operand : moved->getOperands())
          if (isa<FloatType>(getElementTypeOrSelf(operand.getType())))
            parts.insert(operand);
    }
  return found;
}

Value amp::findDirectlyRounded(Value value, const ModelTypes &types) {
  for (Value origin : listOrigins(value))
    if (isRoundedByCast(origin, types))
      return origin;
  return {};
}
