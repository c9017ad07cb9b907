// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/PartsOpInterface.h"

#include "llvm/ADT/STLExtras.h"

#include "compiler/Interfaces/PartsOpInterface.cpp.inc"

using namespace mlir;
using namespace mpc;

static ArrayRef<int64_t> getShapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

SmallVector<int64_t> mpc::findAlignedAxes(Operation *op, int64_t axis) {
  ArrayRef<int64_t> result = getShapeOf(op->getResult(0));
  return llvm::map_to_vector(op->getOperands(), [&](Value operand) {
    ArrayRef<int64_t> shape = getShapeOf(operand);
    int64_t own = axis - static_cast<int64_t>(result.size()) +
                  static_cast<int64_t>(shape.size());
    bool runsAlong = own >= 0 && shape[own] == result[axis];
    return runsAlong ? own : kWhole;
  });
}

RankedTensorType mpc::getPart(Type type, int64_t axis, int64_t count) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  assert(shape[axis] % count == 0 && "parts are equal");
  shape[axis] /= count;
  return tensor.clone(shape);
}

Operation *mpc::clonePart(OpBuilder &builder, Operation *op,
                          ValueRange operands, int64_t axis, int64_t count) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(getPart(op->getResult(0).getType(), axis, count));
  state.addAttributes(op->getAttrs());
  return builder.create(state);
}
