// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/Access.h"

#include "compiler/Dialect/Plan/Plan.h"

using namespace mlir;
using namespace mpc;

Access::Access(ArrayRef<int64_t> dense)
    : shape(dense), strides(plan::getDenseStrides(dense)) {}

void Access::transpose(ArrayRef<int64_t> perm) {
  assert(perm.size() == shape.size() && "a permutation of all axes");
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

// An expanded axis repeats one element, so its stride is 0.
void Access::expand(ArrayRef<int64_t> to) {
  assert(to.size() >= shape.size() && "an expand drops no axis");
  SmallVector<int64_t> result(to.size(), 0);
  size_t missing = to.size() - shape.size();
  for (auto [axis, extent] : llvm::enumerate(shape))
    result[missing + axis] = extent == 1 ? 0 : strides[axis];
  shape = SmallVector<int64_t>(to);
  strides = result;
}

// Merges axes into contiguous runs, then splits the runs into the new axes. The
// axes of a dense matrix are one run. (6, 4) with strides (8, 1) is two runs,
// and can become (2, 3, 4) with strides (24, 8, 1), but not 24.
bool Access::reshape(ArrayRef<int64_t> to) {
  assert(ShapedType::getNumElements(to) == ShapedType::getNumElements(shape) &&
         "a reshape keeps all elements");
  // Any strides describe a tensor without elements.
  if (llvm::is_contained(to, 0)) {
    *this = Access(to);
    return true;
  }
  struct Run {
    int64_t extent, stride;
  };
  // Merge neighbouring axes into runs. Axes of size 1 belong to no run.
  SmallVector<Run> runs;
  for (auto [extent, stride] : llvm::zip_equal(shape, strides)) {
    if (extent == 1)
      continue;
    if (!runs.empty() && runs.back().stride == stride * extent)
      runs.back() = {runs.back().extent * extent, stride};
    else
      runs.push_back({extent, stride});
  }
  // Split the runs into the new axes, from the innermost outwards.
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

bool Access::canFollow(Operation *op) {
  if (auto part = dyn_cast_or_null<SliceOp>(op))
    return isDense(part.getStrides());
  return isa_and_present<ReshapeOp, TransposeOp, ExpandOp>(op);
}

bool Access::follow(Operation *op) {
  assert(canFollow(op) && "the op moves elements by strides");
  if (isa<ReshapeOp>(op))
    return reshape(shapeOf(op->getResult(0)));
  if (auto transposed = dyn_cast<TransposeOp>(op))
    transpose(transposed.getPerm());
  else if (auto part = dyn_cast<SliceOp>(op))
    slice(part.getOffsets(), part.getSizes());
  else
    expand(shapeOf(cast<ExpandOp>(op).getResult()));
  return true;
}
