// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/OperandTypes.h"

#include "compiler/Precision/PrecisionPolicy.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

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

FloatType amp::getStoredType(OpResult result) {
  FloatType type = getFloatType(result);
  DecisionAttr decision = DecisionAttr::of(result.getOwner());
  if (!type || !decision || !type.isF32())
    return type;
  auto op = cast<PrecisionOpInterface>(result.getOwner());
  if (decision.getStorage().getWidth() < 32 &&
      !policyKeepsResultFP32(op.getPolicyKey(), result.getResultNumber()))
    return decision.getStorage();
  return type;
}

FloatType amp::getRequiredType(OpOperand &operand) {
  auto type =
      dyn_cast<FloatType>(getElementTypeOrSelf(operand.get().getType()));
  Operation *op = operand.getOwner();
  // Operands of loops and conditions, and results of functions, keep the type
  // that the model gives them.
  if (!type || op->hasTrait<OpTrait::ReturnLike>() || isa<BodyOpInterface>(op))
    return type;
  DecisionAttr decision = DecisionAttr::of(op);
  if (!decision)
    return {};
  auto precise = cast<PrecisionOpInterface>(op);
  unsigned index = operand.getOperandNumber();
  if (index < precise.getNumContractedOperands())
    return decision.getCompute();
  if (precise.movesElements())
    return decision.getStorage();
  if (decision.getKeepsOperands() ||
      policyKeepsOperandFP32(precise.getPolicyKey(), index))
    return type;
  return {};
}
