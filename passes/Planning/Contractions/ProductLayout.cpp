// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Contractions/ProductLayout.h"

#include "compiler/Kernels/KernelSpace.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

ProductPlace ProductPlace::getDense(ArrayRef<int64_t> shape) {
  return {0, plan::getDenseStrides(shape)};
}

ProductPlace ProductPlace::getArranged(ArrayRef<int64_t> shape,
                                       ArrayRef<int64_t> perm) {
  assert(perm.size() == shape.size() && "a permutation of all axes");
  SmallVector<int64_t> written = plan::getDenseStrides(shape);
  ProductPlace place;
  place.strides.resize(shape.size());
  for (auto [axis, from] : llvm::enumerate(perm))
    place.strides[from] = written[axis];
  return place;
}

ProductPlace ProductPlace::getPadded(ArrayRef<int64_t> shape, int64_t row) {
  assert(!shape.empty() && row >= shape.back() && "padded rows are longer");
  SmallVector<int64_t> padded(shape);
  padded.back() = row;
  return getDense(padded);
}

plan::ArrangeOp mpc::findArrange(Value result) {
  return result.hasOneUse() ? dyn_cast<plan::ArrangeOp>(*result.user_begin())
                            : plan::ArrangeOp();
}

plan::PlaceOp mpc::findPlace(Value result) {
  if (plan::ArrangeOp arrange = findArrange(result))
    result = arrange.getOutput();
  return result.hasOneUse() ? dyn_cast<plan::PlaceOp>(*result.user_begin())
                            : plan::PlaceOp();
}

// A dense plan.access becomes a view, whose buffer already starts at the
// offset.
ProductPlace mpc::getOperandPlace(Value operand) {
  if (auto access = operand.getDefiningOp<plan::AccessOp>();
      access && !access.isDense())
    return {static_cast<int64_t>(access.getOffset()),
            SmallVector<int64_t>(access.getStrides())};
  return ProductPlace::getDense(shapeOf(operand));
}

ProductPlace mpc::getResultPlace(Value result) {
  plan::ArrangeOp arrange = findArrange(result);
  plan::PlaceOp place = findPlace(result);
  Value written = place     ? place.getOutput()
                  : arrange ? arrange.getOutput()
                            : result;
  return arrange
             ? ProductPlace::getArranged(shapeOf(written), arrange.getPerm())
             : ProductPlace::getDense(shapeOf(written));
}

ProductPlaces mpc::getProductPlaces(Operation *op) {
  return {getOperandPlace(op->getOperand(0)),
          getOperandPlace(op->getOperand(1)), getResultPlace(op->getResult(0))};
}

bool mpc::isAligned(const ProductLayout &layout, Operation *op) {
  int64_t unit = TargetInfo::kGPUAlignment /
                 plan::getElementBytes(elementOf(op->getOperand(0)));
  int64_t resultUnit = TargetInfo::kGPUAlignment /
                       plan::getElementBytes(elementOf(op->getResult(0)));
  auto fits = [&](int64_t a, int64_t b, int64_t c) {
    return a % unit == 0 && b % unit == 0 && c % resultUnit == 0;
  };
  return fits(layout.lda, layout.ldb, layout.ldc) &&
         fits(layout.offsetA, layout.offsetB, 0) &&
         llvm::all_of(layout.axes, [&](const BatchAxis &axis) {
           return fits(axis.a, axis.b, axis.c);
         });
}

//===----------------------------------------------------------------------===//
// Axes of the batch
//===----------------------------------------------------------------------===//

int64_t ProductLayout::countCalls() const {
  assert(!axes.empty() && "a step has at least one axis");
  int64_t calls = 1;
  for (const BatchAxis &axis : ArrayRef(axes).drop_back())
    calls *= axis.extent;
  return calls;
}

// True if an operand is a single matrix, repeated for the batch.
static bool isRepeated(Value operand) {
  return ShapedType::getNumElements(shapeOf(operand).drop_back(2)) == 1;
}

// Returns the stride of an operand of `shape` along axis `axis` of the result's
// batch, which has `rank` axes.
static int64_t batchStride(ArrayRef<int64_t> shape, const ProductPlace &place,
                           size_t axis, size_t rank) {
  assert(shape.size() >= 2 && shape.size() - 2 <= rank &&
         place.strides.size() == shape.size() &&
         "a matrix with a stride per axis, and no more axes than the batch");
  size_t own = shape.size() - 2, missing = rank - own;
  if (axis < missing || shape[axis - missing] == 1)
    return 0;
  return place.strides[axis - missing];
}

// Returns the leading dimension of the stored matrix.
static int64_t leadingOf(ArrayRef<int64_t> shape, const ProductPlace &place) {
  assert(shape.size() >= 2 && place.strides.size() == shape.size() &&
         "a matrix with a stride per axis");
  size_t rank = shape.size();
  return shape[rank - 2] == 1 ? shape[rank - 1] : place.strides[rank - 2];
}

// Returns the axes of the batch, merged where strides allow.
static SmallVector<BatchAxis> batchAxes(Operation *op,
                                        const ProductPlaces &places) {
  ArrayRef<int64_t> batch = shapeOf(op->getResult(0)).drop_back(2);
  SmallVector<BatchAxis> axes;
  for (auto [axis, extent] : llvm::enumerate(batch)) {
    // An axis of extent 1 has a single matrix, and so no distance between
    // matrices.
    if (extent == 1)
      continue;
    BatchAxis next{
        extent,
        batchStride(shapeOf(op->getOperand(0)), places.a, axis, batch.size()),
        batchStride(shapeOf(op->getOperand(1)), places.b, axis, batch.size()),
        places.c.strides[axis]};
    // Merge axes that continue each other: [3, 4] becomes an axis of 12, and a
    // single library call.
    if (!axes.empty() && axes.back().continues(next)) {
      next.extent *= axes.back().extent;
      axes.pop_back();
    }
    axes.push_back(next);
  }
  return axes;
}

// Regroups a batch of many matrices of few rows that share the right operand:
// the first rows of all matrices become one matrix, the second rows the next.
// 100 products of 2 rows become 2 products of 100 rows. Rows of a and c must
// not overlap.
static void gatherRows(ProductLayout &layout) {
  assert(!layout.axes.empty() && "rows are gathered over a batch axis");
  BatchAxis &axis = layout.axes.back();
  if (axis.b != 0 || layout.m >= kFewRows || layout.m >= axis.extent ||
      axis.a < layout.k || axis.c < layout.n)
    return;
  std::swap(layout.m, axis.extent);
  std::swap(layout.lda, axis.a);
  std::swap(layout.ldc, axis.c);
}

ProductLayout mpc::layOutProduct(Operation *op, bool transA,
                                 const TargetInfo &target,
                                 const ProductPlaces &places) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  ProductLayout layout;
  layout.m = shape[shape.size() - 2];
  layout.n = shape.back();
  layout.k = shapeOf(lhs)[shapeOf(lhs).size() - (transA ? 2 : 1)];
  layout.lda = leadingOf(shapeOf(lhs), places.a);
  layout.ldb = leadingOf(shapeOf(rhs), places.b);
  layout.ldc = leadingOf(shape, places.c);
  layout.offsetA = places.a.offset;
  layout.offsetB = places.b.offset;

  // Batches with a common right operand become rows of one product, if rows are
  // evenly spaced.
  SmallVector<BatchAxis> &axes = layout.axes;
  axes = batchAxes(op, places);
  while (!axes.empty() && axes.back().b == 0 && !transA &&
         axes.back().a == layout.m * layout.lda &&
         axes.back().c == layout.m * layout.ldc)
    layout.m *= axes.pop_back_val().extent;
  if (target.callsEpilogues() && !transA && !axes.empty())
    gatherRows(layout);

  // plan.matmul stores the distance between matrices, even for a single matrix,
  // so it needs at least one batch axis.
  if (axes.empty())
    axes.push_back({1, 0, 0, layout.m * layout.ldc});
  if (axes.size() == 1 && axes.front().extent == 1) {
    axes.front().a = isRepeated(lhs) ? 0 : layout.m * layout.k;
    axes.front().b = isRepeated(rhs) ? 0 : layout.k * layout.n;
  }
  if (target.isGPU())
    std::swap(axes.back(), *llvm::max_element(axes, [](const BatchAxis &x,
                                                       const BatchAxis &y) {
                return x.extent < y.extent;
              }));
  return layout;
}
