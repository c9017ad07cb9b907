// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/DecidedTypes.h"

#include "compiler/Precision/Policy/PolicyTable.h"
#include "passes/Precision/FloatTypes.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

FloatType amp::getModelType(Operation *op) {
  for (ValueRange values :
       {ValueRange(op->getResults()), ValueRange(op->getOperands())})
    for (Value value : values)
      if (auto type =
              dyn_cast<FloatType>(getElementTypeOrSelf(value.getType())))
        return type;
  llvm_unreachable("an op of the precision graph has a float");
}

ArrayAttr amp::listModelTypes(Operation *op) {
  llvm::SetVector<Attribute> types;
  bool isOther = false;
  for (ValueRange values :
       {ValueRange(op->getResults()), ValueRange(op->getOperands())})
    for (Value value : values)
      if (auto type =
              dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()))) {
        types.insert(TypeAttr::get(type));
        isOther |= !type.isF32();
      }
  return isOther ? ArrayAttr::get(op->getContext(), types.getArrayRef())
                 : ArrayAttr();
}

SmallVector<Type> amp::listResultTypes(PrecisionOpInterface op,
                                       FloatType stored) {
  SmallVector<Type> types;
  for (OpResult result : op->getResults())
    if (FloatType type = getFloatType(result))
      types.push_back(stored && type.isF32() &&
                              !policyKeepsResultFP32(op.getPolicyKey(),
                                                     result.getResultNumber())
                          ? stored
                          : type);
  return types;
}

SmallVector<Type> amp::listOperandTypes(PrecisionOpInterface op,
                                        FloatType factor, FloatType moved,
                                        bool keepsOperands) {
  SmallVector<Type> types;
  Type any = NoneType::get(op->getContext());
  for (OpOperand &operand : op->getOpOperands()) {
    const unsigned index = operand.getOperandNumber();
    FloatType type = getFloatType(operand.get());
    if (!type)
      continue;
    if (index < op.getNumContractedOperands())
      types.push_back(factor);
    else if (op.movesElements())
      types.push_back(moved ? Type(moved) : any);
    else
      types.push_back(keepsOperands ||
                              policyKeepsOperandFP32(op.getPolicyKey(), index)
                          ? Type(type)
                          : any);
  }
  return types;
}
