// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/KernelSpace.h"

#include "compiler/Kernels/KernelPartition.h"
#include "compiler/Kernels/MatrixOperand.h"

#include "compiler/Dialect/Plan/Plan.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

ArrayRef<int64_t> mpc::getResultShape(func::FuncOp kernel) {
  return cast<RankedTensorType>(kernel.getResultTypes().front()).getShape();
}

ArrayRef<int64_t> mpc::getElementShape(func::FuncOp kernel) {
  Value first = kernel.getBody().front().getTerminator()->getOperand(0);
  auto isPlaced = [](Operation *maker) {
    return maker && (isArrangement(maker) || isStoredJoin(maker) ||
                     isStoredPlaced(maker));
  };
  while (isPlaced(first.getDefiningOp()))
    first = first.getDefiningOp()->getOperand(0);
  return shapeOf(first);
}

// Compares the axes from `axis` on: true if all extents of `shape` are those of
// `space` (dense), or all are 1 (one repeated value). [1, 64] in [32, 64] is
// uniform from axis 1, but not from axis 0.
static bool isUniformFrom(ArrayRef<int64_t> shape, ArrayRef<int64_t> space,
                          size_t axis) {
  assert(shape.size() == space.size() && "a shape with all axes of the space");
  bool dense = true, single = true;
  for (auto [extent, whole] :
       llvm::zip_equal(shape.drop_front(axis), space.drop_front(axis))) {
    dense &= extent == whole;
    single &= extent == 1;
  }
  return dense || single;
}

// A kernel over a space of `rank` axes loads or stores a box of `sizes`
// elements of a tensor of shape `whole`. Returns the box's shape, with leading
// 1s. If the box has only some of the columns, its rows are not contiguous:
// axes before the columns get extent 0, which isUniformFrom never accepts. Box
// [8, 16] of [8, 64] gives [0, 16].
static SmallVector<int64_t>
getShapeOfPart(ArrayRef<int64_t> sizes, ArrayRef<int64_t> whole, size_t rank) {
  assert(sizes.size() == whole.size() && sizes.size() <= rank &&
         "a part has the rank of its tensor, and fits the space");
  SmallVector<int64_t> shape(rank - sizes.size(), 1);
  llvm::append_range(shape, sizes);
  bool isPart = false;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (isPart && sizes[axis] != 1)
      shape[rank - sizes.size() + axis] = 0;
    isPart |= sizes[axis] != whole[axis];
  }
  return shape;
}

// Returns the shapes of all operands that a pointwise kernel over `rank` axes
// reads, and of all boxes of larger tensors that it loads or stores. Missing
// axes have extent 1.
static SmallVector<SmallVector<int64_t>> getAccessedShapes(func::FuncOp kernel,
                                                           size_t rank) {
  SmallVector<SmallVector<int64_t>> shapes;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    // A slice reads a box of a larger tensor; a concat or plan.place writes
    // one. Strides within the box are those of the larger tensor.
    if (isLoadedPart(&op) || isStoredJoin(&op) || isStoredPlaced(&op)) {
      Value operand = op.getOperand(0), result = op.getResult(0);
      if (!isa<SliceOp>(op))
        std::swap(operand, result);
      shapes.push_back(getShapeOfPart(shapeOf(result), shapeOf(operand), rank));
      continue;
    }
    // A transpose computes nothing. The ops beside it load or store with
    // permuted strides.
    if (isa<TransposeOp>(op))
      continue;
    // Other ops read each operand at the index of the result: a bias [10] that
    // is added to [32, 10] is read as [1, 10].
    for (OpOperand &operand : op.getOpOperands()) {
      size_t own = shapeOf(op.getResult(0)).size();
      SmallVector<int64_t> shape(rank, 1);
      for (auto [axis, extent] :
           llvm::zip_equal(getOperandAxes(operand), shapeOf(operand.get())))
        if (axis != kOwnAxis)
          shape[rank - own + axis] = extent;
      shapes.push_back(std::move(shape));
    }
  }
  return shapes;
}

size_t mpc::findUniformAxis(func::FuncOp kernel, ArrayRef<int64_t> space) {
  SmallVector<SmallVector<int64_t>> shapes =
      getAccessedShapes(kernel, space.size());
  size_t axis = space.size();
  // With a transpose that permutes rows, the last axis alone may be dense.
  bool hasRows = llvm::any_of(kernel.getBody().front(),
                              [](Operation &op) { return keepsRows(&op); });
  size_t least = hasRows ? space.size() - 1 : 0;
  while (axis > least && llvm::all_of(shapes, [&](ArrayRef<int64_t> shape) {
           return isUniformFrom(shape, space, axis - 1);
         }))
    --axis;
  return axis;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

std::optional<ReductionSpace> mpc::getReductionSpace(ArrayRef<int64_t> shape,
                                                     ArrayRef<int64_t> axes) {
  assert(llvm::all_of(axes,
                      [&](int64_t axis) {
                        return axis >= 0 && size_t(axis) < shape.size();
                      }) &&
         "axes of the shape");
  ReductionSpace space;
  bool sawReduced = false, sawInner = false;
  // Multiply the extents before, within and after the reduced axes, which must
  // be adjacent. Axes of size 1 may be anywhere.
  for (auto [axis, extent] : llvm::enumerate(shape)) {
    if (extent == 1)
      continue;
    if (llvm::is_contained(axes, static_cast<int64_t>(axis))) {
      if (sawInner)
        return std::nullopt;
      sawReduced = true;
      space.reduced *= extent;
    } else if (sawReduced) {
      sawInner = true;
      space.inner *= extent;
    } else {
      space.outer *= extent;
    }
  }
  return space;
}

std::optional<SmallVector<int64_t>> mpc::getReducedAxes(Operation *op) {
  if (auto reduction = dyn_cast<ReductionOpInterface>(op))
    return reduction.getReducedAxes();
  return std::nullopt;
}

std::optional<ReductionSpace> mpc::getReductionSpace(Operation *op) {
  auto reduction = cast<ReductionOpInterface>(op);
  std::optional<ReductionSpace> space =
      getReductionSpace(shapeOf(op->getOperand(0)), reduction.getReducedAxes());
  if (space) {
    int64_t parts = reduction.getReductionParts();
    assert(parts > 0 && space->reduced % parts == 0 && "parts are equal");
    space->outer *= parts;
    space->reduced /= parts;
  }
  return space;
}

bool mpc::reducesRows(Operation *op) {
  std::optional<ReductionSpace> space = getReductionSpace(op);
  return space && space->inner == 1;
}

Operation *mpc::findReduction(Block &body) {
  Operation *first = nullptr;
  for (Operation &op : body) {
    if (!isa<ReductionOpInterface>(op))
      continue;
    if (reducesRows(&op))
      return &op;
    if (!first)
      first = &op;
  }
  return first;
}

ReductionSpace mpc::getReductionSpace(func::FuncOp kernel) {
  Operation *reduction = findReduction(kernel.getBody().front());
  assert(reduction && "a kernel that reduces");
  return getReductionSpace(reduction).value();
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

bool mpc::isF64(Operation *contraction) {
  auto holdsF64 = [](Type type) { return getElementTypeOrSelf(type).isF64(); };
  return llvm::any_of(contraction->getOperandTypes(), holdsF64) ||
         llvm::any_of(contraction->getResultTypes(), holdsF64);
}

ProductExtents mpc::getProductExtents(MatMulOp matmul) {
  ArrayRef<int64_t> left = shapeOf(matmul.getLhs());
  ArrayRef<int64_t> right = shapeOf(matmul.getRhs());
  ArrayRef<int64_t> result = shapeOf(matmul);
  assert(left.size() >= 2 && right.size() >= 2 && result.size() >= 2 &&
         "operands and results of products are matrices");
  ProductExtents extents;
  extents.m = result[result.size() - 2];
  extents.n = result.back();
  extents.k = left[left.size() - (matmul.getTransA() ? 2 : 1)];
  extents.batch = ShapedType::getNumElements(result.drop_back(2));
  extents.repeatsLhs = ShapedType::getNumElements(left.drop_back(2)) == 1;
  extents.repeatsRhs = ShapedType::getNumElements(right.drop_back(2)) == 1;
  if (extents.repeatsRhs && !extents.repeatsLhs && !matmul.getTransA() &&
      hasJoinedRows(matmul.getLhs())) {
    extents.m *= extents.batch;
    extents.batch = 1;
  }
  return extents;
}

//===----------------------------------------------------------------------===//
// Scatters
//===----------------------------------------------------------------------===//

ScatterSpace mpc::getScatterSpace(ScatterOpInterface scatter) {
  ArrayRef<int64_t> shape = shapeOf(scatter->getResult(0));
  int64_t axis = scatter.getScatteredAxis();
  assert(axis >= 0 && size_t(axis) < shape.size() && "an axis of the result");
  ScatterSpace space;
  space.outer = ShapedType::getNumElements(shape.take_front(axis));
  space.size = shape[axis];
  space.inner = ShapedType::getNumElements(shape.drop_front(axis + 1));
  ArrayRef<int64_t> updates = shapeOf(scatter.getUpdatesOperand().get());
  size_t behind = shape.size() - axis - 1;
  space.updates =
      ShapedType::getNumElements(updates.drop_front(axis).drop_back(behind));
  return space;
}

ScatterOpInterface mpc::findScatter(Block &body) {
  for (Operation &op : body)
    if (auto scatter = dyn_cast<ScatterOpInterface>(op))
      return scatter;
  return nullptr;
}

ScatterSpace mpc::getScatterSpace(func::FuncOp kernel) {
  ScatterOpInterface scatter = findScatter(kernel.getBody().front());
  assert(scatter && "a kernel that scatters");
  return getScatterSpace(scatter);
}

//===----------------------------------------------------------------------===//
// Cumulative sums
//===----------------------------------------------------------------------===//

CumulativeSpace mpc::getCumulativeSpace(CumSumOp sum) {
  ArrayRef<int64_t> shape = shapeOf(sum.getInput());
  int64_t axis = sum.getAxis();
  assert(axis >= 0 && size_t(axis) < shape.size() && "an axis of the input");
  return {ShapedType::getNumElements(shape.take_front(axis)), shape[axis],
          ShapedType::getNumElements(shape.drop_front(axis + 1))};
}

CumulativeSpace mpc::getCumulativeSpace(func::FuncOp kernel) {
  return getCumulativeSpace(cast<CumSumOp>(kernel.getBody().front().front()));
}

//===----------------------------------------------------------------------===//
// Transposes
//===----------------------------------------------------------------------===//

SmallVector<MovedAxis> mpc::mergeAxes(ArrayRef<MovedAxis> axes) {
  SmallVector<MovedAxis> merged;
  for (MovedAxis axis : axes) {
    if (axis.size == 1)
      continue;
    if (!merged.empty() && merged.back().stride == axis.stride * axis.size)
      merged.back() = {merged.back().size * axis.size, axis.stride};
    else
      merged.push_back(axis);
  }
  return merged;
}

TransposeSpace mpc::getTransposeSpace(TransposeOp transpose) {
  ArrayRef<int64_t> input = shapeOf(transpose.getInput());
  SmallVector<int64_t> strides(input.size(), 1);
  for (size_t axis = input.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * input[axis];
  SmallVector<MovedAxis> axes;
  for (auto [size, source] :
       llvm::zip_equal(shapeOf(transpose.getOutput()), transpose.getPerm()))
    axes.push_back({size, strides[source]});
  TransposeSpace space;
  if (!axes.empty())
    space.columns = axes.pop_back_val();
  space.rows = mergeAxes(axes);
  return space;
}

TransposeTile mpc::getTransposeTile(const TransposeSpace &space) {
  assert(!space.rows.empty() && space.columns.size > 0 &&
         "a transpose with rows and columns");
  constexpr int64_t side = 32, elements = 2048;
  int64_t rows = space.rows.back().size, columns = space.columns.size;
  if (columns < side)
    return {std::min(rows, divideEvenly(rows, elements / columns, side)),
            columns};
  if (rows < side)
    return {rows,
            std::min(columns, divideEvenly(columns, elements / rows, side))};
  return {side, side};
}

bool mpc::keepsRows(Operation *op) {
  auto transpose = dyn_cast<TransposeOp>(op);
  if (!transpose || transpose.getPerm().empty())
    return false;
  int64_t last = transpose.getPerm().size() - 1;
  return transpose.getPerm().back() == last;
}

bool mpc::isArrangement(Operation *op) {
  return keepsRows(op) && llvm::all_of(op->getUsers(), [](Operation *user) {
           return user->hasTrait<OpTrait::IsTerminator>() ||
                  isStoredPlaced(user);
         });
}

bool mpc::isContiguousPart(ArrayRef<int64_t> sizes, ArrayRef<int64_t> whole) {
  assert(sizes.size() == whole.size() && "a part has its tensor's rank");
  for (auto [size, extent] :
       llvm::zip_equal(llvm::reverse(sizes), llvm::reverse(whole)))
    if (size != 1 || extent != 1)
      return size != 1;
  return true;
}

bool mpc::isLoadedPart(Operation *op) {
  auto slice = dyn_cast<SliceOp>(op);
  return slice && isa<BlockArgument>(slice.getInput()) &&
         isContiguousPart(slice.getSizes(), shapeOf(slice.getInput())) &&
         llvm::all_of(slice.getStrides(),
                      [](int64_t stride) { return stride == 1; });
}

bool mpc::isStoredJoin(Operation *op) {
  auto join = dyn_cast<ConcatOp>(op);
  return join &&
         isContiguousPart(shapeOf(join.getInputs()[0]),
                          shapeOf(join.getOutput())) &&
         llvm::all_of(join.getInputs(),
                      [&](Value input) {
                        return input.getDefiningOp() &&
                               shapeOf(input) == shapeOf(join.getInputs()[0]);
                      }) &&
         llvm::all_of(op->getUsers(), [](Operation *user) {
           return user->hasTrait<OpTrait::IsTerminator>();
         });
}

bool mpc::isStoredPlaced(Operation *op) {
  return isa<plan::PlaceOp>(op) && op->getOperand(0).getDefiningOp() &&
         llvm::all_of(op->getUsers(), [](Operation *user) {
           return user->hasTrait<OpTrait::IsTerminator>();
         });
}

bool mpc::isStoredWhereLoaded(SliceOp slice) {
  return llvm::any_of(*slice->getBlock(), [&](Operation &op) {
    if (!(isStoredJoin(&op) || isStoredPlaced(&op)) ||
        op.getResult(0).getType() != slice.getInput().getType() ||
        shapeOf(op.getOperand(0)) != slice.getSizes())
      return false;
    // plan.place writes a box of a tensor: it must begin at the first element
    // that the slice loads, with rows in the loaded order.
    if (auto place = dyn_cast<plan::PlaceOp>(op))
      return !place.getInput().getDefiningOp<TransposeOp>() &&
             place.getFirstElement() ==
                 linearize(slice.getOffsets(),
                           plan::getDenseStrides(shapeOf(slice.getInput())));
    // A concat writes equal inputs side by side, and the slice must load
    // exactly the elements of one input. Offsets along the concat's axis are
    // therefore multiples of the input's size.
    size_t axis = cast<ConcatOp>(op).getAxis();
    for (auto [number, offset] : llvm::enumerate(slice.getOffsets()))
      if (number == axis ? offset % slice.getSizes()[axis] != 0 : offset != 0)
        return false;
    return true;
  });
}
