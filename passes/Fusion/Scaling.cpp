// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Scaling.h"

using namespace mlir;
using namespace mpc;

OpOperand *mpc::findScaledOperand(Operation *op) {
  if (!hasRole(op, RegionRole::Elementwise) || dependsOnPlace(op) ||
      isa<OptimizerOpInterface>(op) || op->getNumResults() != 1)
    return nullptr;
  OpOperand *scaled = nullptr;
  for (OpOperand &operand : op->getOpOperands()) {
    if (typeOf(operand.get()).getNumElements() == 1)
      continue;
    if (scaled)
      return nullptr;
    scaled = &operand;
  }
  bool keepsShape =
      scaled && shapeOf(scaled->get()) == shapeOf(op->getResult(0));
  return keepsShape ? scaled : nullptr;
}

Value mpc::scaleInstead(Operation *op, Value input, OpBuilder &builder) {
  OpOperand *scaled = findScaledOperand(op);
  RankedTensorType type = typeOf(input);
  OperationState state(op->getLoc(), op->getName());
  state.addAttributes(op->getAttrs());
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = &operand == scaled ? input : operand.get();
    // Reshape a scalar that has more axes than `input`, such as (1, 1, 1), to
    // rank 0, so that it broadcasts to `input`.
    if (&operand != scaled && typeOf(value).getRank() > type.getRank())
      value =
          ReshapeOp::create(builder, op->getLoc(),
                            typeOf(value).clone(ArrayRef<int64_t>()), value);
    state.operands.push_back(value);
  }
  state.types.push_back(type.clone(elementOf(op->getResult(0))));
  return builder.create(state)->getResult(0);
}
