// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Movement.h"

#include "compiler/Dialect/Plan/Plan.h"

using namespace mlir;
using namespace mpc;

Operation *mpc::findMovement(Operation *op) {
  auto region = dyn_cast_or_null<RegionOp>(op);
  if (!region)
    return nullptr;
  Operation &moved = region.getBody().front().front();
  bool isAlone =
      moved.getNumOperands() == 1 && isa<BlockArgument>(moved.getOperand(0)) &&
      moved.getNextNode() == region.getBody().front().getTerminator() &&
      elementOf(moved.getOperand(0)) == elementOf(moved.getResult(0));
  auto slice = dyn_cast<SliceOp>(moved);
  bool keepsStrides = !slice || isDense(slice.getStrides());
  return isAlone && keepsStrides && isa<TransposeOp, SliceOp, ExpandOp>(moved)
             ? &moved
             : nullptr;
}

bool mpc::isWorthKeeping(Value source, Value part) {
  while (Operation *view = source.getDefiningOp()) {
    if (!plan::isView(view))
      break;
    source = view->getOperand(0);
  }
  Operation *maker = source.getDefiningOp();
  return !maker || maker->hasTrait<OpTrait::ConstantLike>() ||
         4 * typeOf(part).getNumElements() >= typeOf(source).getNumElements();
}
