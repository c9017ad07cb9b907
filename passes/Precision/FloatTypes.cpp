// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/FloatTypes.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mpc;

RankedTensorType amp::withElementType(Type type, Type element) {
  return cast<RankedTensorType>(type).clone(element);
}

bool amp::hasFloats(Operation *op) {
  auto isFloat = [](Type type) {
    return isa<FloatType>(getElementTypeOrSelf(type));
  };
  return llvm::any_of(op->getOperandTypes(), isFloat) ||
         llvm::any_of(op->getResultTypes(), isFloat);
}

FloatType amp::getFloatType(Value value) {
  return dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
}
