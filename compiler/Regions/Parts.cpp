// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/Parts.h"

#include "compiler/Dialect/MPC/MPC.h"

using namespace mlir;
using namespace mpc;

std::optional<SmallVector<int64_t>> mpc::findPartedAxes(Operation *op,
                                                        int64_t axis) {
  assert(axis >= 0 && "an axis of the result");
  // Only ops with a single result, longer than 1 along the axis, can be
  // divided.
  if (op->getNumResults() != 1 || op->getNumRegions() != 0 ||
      op->getNumOperands() == 0 || axis >= typeOf(op->getResult(0)).getRank() ||
      shapeOf(op->getResult(0))[axis] == 1)
    return std::nullopt;
  if (auto parts = dyn_cast<PartsOpInterface>(op))
    return parts.findPartedAxes(axis);
  // An elementwise op can be divided along any axis. An operand that is
  // broadcast along the axis stays whole.
  if (hasRole(op, RegionRole::Elementwise) && !dependsOnPlace(op))
    return findAlignedAxes(op, axis);
  return std::nullopt;
}

bool mpc::canSplit(Operation *op, int64_t axis, int64_t count) {
  assert(count > 0 && "a number of parts");
  assert(findPartedAxes(op, axis) && "an axis along which the op has parts");
  auto divides = [&](Value value, int64_t own) {
    return own == kWhole || shapeOf(value)[own] % count == 0;
  };
  auto parts = dyn_cast<PartsOpInterface>(op);
  return divides(op->getResult(0), axis) &&
         llvm::all_of(llvm::zip(op->getOperands(), *findPartedAxes(op, axis)),
                      [&](auto pair) {
                        return divides(std::get<0>(pair), std::get<1>(pair));
                      }) &&
         (!parts || parts.allowsParts(axis, count));
}

std::optional<int64_t> mpc::findResultAxis(OpOperand &operand, int64_t axis) {
  Operation *op = operand.getOwner();
  if (op->getNumResults() != 1)
    return std::nullopt;
  for (int64_t i = 0; i < typeOf(op->getResult(0)).getRank(); ++i)
    if (auto axes = findPartedAxes(op, i);
        axes && (*axes)[operand.getOperandNumber()] == axis)
      return i;
  return std::nullopt;
}

SmallVector<int64_t, 2> mpc::getSummedAxes(Operation *product) {
  auto op = cast<MatMulOp>(product);
  int64_t left = typeOf(op.getLhs()).getRank();
  int64_t right = typeOf(op.getRhs()).getRank();
  return {op.getTransA() ? left - 2 : left - 1,
          op.getTransB() ? right - 1 : right - 2};
}

bool mpc::isSummed(OpOperand &operand, int64_t axis) {
  return isa<MatMulOp>(operand.getOwner()) &&
         getSummedAxes(operand.getOwner())[operand.getOperandNumber()] == axis;
}

std::optional<int64_t> mpc::getGroupsPerPart(Operation *op, int64_t axis,
                                             int64_t count) {
  auto parts = dyn_cast<PartsOpInterface>(op);
  return parts ? parts.getGroupsPerPart(axis, count) : std::nullopt;
}

Operation *mpc::createPart(OpBuilder &builder, Operation *op,
                           ValueRange operands, int64_t axis, int64_t count,
                           Value group) {
  if (auto parts = dyn_cast<PartsOpInterface>(op))
    return parts.createPart(builder, operands, axis, count, group);
  return clonePart(builder, op, operands, axis, count);
}
