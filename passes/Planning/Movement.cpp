// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Movement.h"

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Interfaces/IndexedOpInterface.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Where elements lie
//===----------------------------------------------------------------------===//

Access::Access(ArrayRef<int64_t> dense)
    : shape(dense), strides(plan::getDenseStrides(dense)) {}

void Access::transpose(ArrayRef<int64_t> perm) {
  SmallVector<int64_t> oldShape = shape, oldStrides = strides;
  for (auto [axis, from] : llvm::enumerate(perm)) {
    shape[axis] = oldShape[from];
    strides[axis] = oldStrides[from];
  }
}

void Access::slice(ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes) {
  for (auto [start, stride] : llvm::zip_equal(offsets, strides))
    offset += start * stride;
  shape = SmallVector<int64_t>(sizes);
}

// Where an axis is repeated, the next element is the same one.
void Access::expand(ArrayRef<int64_t> to) {
  SmallVector<int64_t> result(to.size(), 0);
  size_t missing = to.size() - shape.size();
  for (auto [axis, extent] : llvm::enumerate(shape))
    result[missing + axis] = extent == 1 ? 0 : strides[axis];
  shape = SmallVector<int64_t>(to);
  strides = result;
}

// Axes that lie in each other, like the rows and columns of a dense matrix, are
// one run of elements; each new axis is a part of a run. (6, 4) with strides
// (8, 1) is two runs: it can become (2, 3, 4), with strides (24, 8, 1), not 24.
bool Access::reshape(ArrayRef<int64_t> to) {
  struct Run {
    int64_t extent, stride;
  };
  // Merge neighbouring axes into runs; axes of size 1 belong to none.
  SmallVector<Run> runs;
  for (auto [extent, stride] : llvm::zip_equal(shape, strides)) {
    if (extent == 1)
      continue;
    if (!runs.empty() && runs.back().stride == stride * extent)
      runs.back() = {runs.back().extent * extent, stride};
    else
      runs.push_back({extent, stride});
  }
  // Split the runs into the new axes, the innermost first.
  SmallVector<int64_t> result(to.size(), 1);
  for (size_t axis = to.size(); axis-- > 0;) {
    if (to[axis] == 1)
      continue;
    if (runs.empty() || runs.back().extent % to[axis] != 0)
      return false;
    result[axis] = runs.back().stride;
    runs.back().extent /= to[axis];
    runs.back().stride *= to[axis];
    if (runs.back().extent == 1)
      runs.pop_back();
  }
  shape = SmallVector<int64_t>(to);
  strides = result;
  return true;
}

//===----------------------------------------------------------------------===//
// What moves
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

// Whether `op` is a kernel that moves, or a view.
static bool moves(Operation *op) {
  return op && (isa<ReshapeOp>(op) || findMovement(op));
}

// Makes `access`, which reads the operand of `op`, read its result. False
// where no strides do that.
static bool follow(Operation *op, Access &access) {
  if (isa<ReshapeOp>(op))
    return access.reshape(shapeOf(op->getResult(0)));
  Operation *movement = findMovement(op);
  if (auto transpose = dyn_cast<TransposeOp>(movement))
    access.transpose(transpose.getPerm());
  else if (auto slice = dyn_cast<SliceOp>(movement))
    access.slice(slice.getOffsets(), slice.getSizes());
  else
    access.expand(shapeOf(movement->getResult(0)));
  return true;
}

// Whether a library can read matrices there: rows of adjacent elements, none
// of which begins within another.
static bool isMatrices(const Access &access) {
  size_t rank = access.shape.size();
  int64_t columns = access.shape[rank - 1], rows = access.shape[rank - 2];
  return (columns == 1 || access.strides[rank - 1] == 1) &&
         (rows == 1 || access.strides[rank - 2] >= columns);
}

SmallVector<Source> mpc::findSources(Value value) {
  // The ops that lead to the value, the last one first.
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
  // The kernel's argument is what was moved,
  Value source = movement->getParentOfType<RegionOp>()->getOperand(0);
  Block &body = cast<RegionOp>(use.getOwner()).getBody().front();
  BlockArgument argument = body.getArgument(use.getOperandNumber());
  use.set(source);
  argument.setType(source.getType());
  // and all ops read it as it is moved.
  auto builder = OpBuilder::atBlockBegin(&body);
  Operation *inside = builder.clone(*movement);
  argument.replaceAllUsesWith(inside->getResult(0));
  inside->setOperand(0, argument);
}
