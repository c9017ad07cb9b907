// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Movement/Movement.h"

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Interfaces/IndexedOpInterface.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Movements
//===----------------------------------------------------------------------===//

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

// True if `op` is a kernel that only moves elements, or a view.
static bool moves(Operation *op) {
  return op && (isa<ReshapeOp>(op) || findMovement(op));
}

// Turns `access`, the description of the operand of `op`, into the description
// of the result. Returns false if no strides describe the result.
static bool follow(Operation *op, Access &access) {
  return access.follow(isa<ReshapeOp>(op) ? op : findMovement(op));
}

// True if a library can read the last two axes as a matrix: elements of a row
// are adjacent, and rows do not overlap.
static bool isMatrices(const Access &access) {
  size_t rank = access.shape.size();
  int64_t columns = access.shape[rank - 1], rows = access.shape[rank - 2];
  return (columns == 1 || access.strides[rank - 1] == 1) &&
         (rows == 1 || access.strides[rank - 2] >= columns);
}

SmallVector<Source> mpc::findSources(Value value) {
  SmallVector<Operation *> path;
  SmallVector<Source> sources;
  for (Value next = value; moves(next.getDefiningOp());) {
    path.push_back(next.getDefiningOp());
    next = path.back()->getOperand(0);
    Access access(shapeOf(next));
    bool reaches = llvm::all_of(
        llvm::reverse(path), [&](Operation *op) { return follow(op, access); });
    if (reaches && findMovement(path.back()) && isMatrices(access))
      sources.push_back({next, access});
  }
  return sources;
}

bool mpc::isReturned(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>() ||
           (isa<ReshapeOp>(user) && isReturned(user->getResult(0)));
  });
}

bool mpc::isBareLibraryContraction(RegionOp region) {
  Operation *yield = region.getBody().front().getTerminator();
  return region.getProvider() == ContractionProvider::Library &&
         yield->getNumOperands() == 1 &&
         yield->getOperand(0) == region.getContraction()->getResult(0);
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

//===----------------------------------------------------------------------===//
// Readers
//===----------------------------------------------------------------------===//

bool mpc::isReadByElement(OpOperand &use) {
  auto reader = cast<RegionOp>(use.getOwner());
  BlockArgument argument = reader.getBody().getArgument(use.getOperandNumber());
  return llvm::all_of(argument.getUses(), [](OpOperand &inside) {
    Operation *op = inside.getOwner();
    return !readsMemory(inside) &&
           (hasRole(op, RegionRole::Elementwise) ||
            (isa<ReductionOpInterface>(op) && inside.getOperandNumber() == 0));
  });
}

void mpc::readThrough(OpOperand &use, Operation *movement) {
  // The operand of the kernel becomes the source of the movement.
  Operation *maker = isa<ReshapeOp>(movement)
                         ? movement
                         : movement->getParentOfType<RegionOp>();
  Value source = maker->getOperand(0);
  Block &body = cast<RegionOp>(use.getOwner()).getBody().front();
  BlockArgument argument = body.getArgument(use.getOperandNumber());
  use.set(source);
  argument.setType(source.getType());
  // A clone of the movement inside the kernel feeds all ops that read the
  // operand.
  auto builder = OpBuilder::atBlockBegin(&body);
  Operation *inside = builder.clone(*movement);
  argument.replaceAllUsesWith(inside->getResult(0));
  inside->setOperand(0, argument);
}
