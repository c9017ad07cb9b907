// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/RoundedValues.h"

#include "compiler/Interfaces/TiedValues.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

// True if type `to` lacks some value of type `from`.
static bool rounds(amp::CastOp op) {
  const llvm::fltSemantics &from =
      cast<FloatType>(getElementTypeOrSelf(op.getInput().getType()))
          .getFloatSemantics();
  const llvm::fltSemantics &to =
      cast<FloatType>(getElementTypeOrSelf(op.getType())).getFloatSemantics();
  return APFloat::semanticsPrecision(from) > APFloat::semanticsPrecision(to) ||
         APFloat::semanticsMaxExponent(from) >
             APFloat::semanticsMaxExponent(to) ||
         APFloat::semanticsMinExponent(from) <
             APFloat::semanticsMinExponent(to);
}

amp::CastOp amp::findRoundingCast(Value value, IsForcedLow isForcedLow) {
  amp::CastOp found;
  llvm::SmallSetVector<Value, 8> parts;
  parts.insert(value);
  for (unsigned i = 0; i < parts.size(); ++i)
    for (Value origin : listOrigins(parts[i])) {
      auto cast = origin.getDefiningOp<amp::CastOp>();
      auto moved =
          dyn_cast_or_null<PrecisionOpInterface>(origin.getDefiningOp());
      if (cast && rounds(cast))
        found = cast;
      else if (!moved || !moved.movesElements() || isForcedLow(moved))
        return {};
      else
        for (Value operand : moved->getOperands())
          if (isa<FloatType>(getElementTypeOrSelf(operand.getType())))
            parts.insert(operand);
    }
  return found;
}

amp::CastOp amp::findDirectRoundingCast(Value value) {
  for (Value origin : listOrigins(value))
    if (auto cast = origin.getDefiningOp<amp::CastOp>(); cast && rounds(cast))
      return cast;
  return {};
}
