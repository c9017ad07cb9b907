// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/Places.h"

#include "compiler/Kernels/KernelSpace.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// Returns the place of a value of `shape` that is broadcast to a value at
/// `place`. By NumPy's rules, their last axes correspond.
static Place alignRight(ArrayRef<int64_t> shape, ArrayRef<int64_t> place) {
  assert(shape.size() <= place.size() &&
         "a value has no more axes than its place");
  Place result;
  size_t missing = place.size() - shape.size();
  for (auto [axis, extent] : llvm::enumerate(shape))
    result.push_back(extent == 1 ? kUnit : place[missing + axis]);
  return result;
}

/// Returns the place of the operand of a reshape, if its result is at `place`.
/// The reshape may only add or drop axes of size 1; nullopt for any other
/// reshape.
static std::optional<Place> throughReshape(ArrayRef<int64_t> from,
                                           ArrayRef<int64_t> to,
                                           ArrayRef<int64_t> place) {
  assert(to.size() == place.size() && "the place of the result");
  Place result;
  size_t next = 0;
  for (int64_t extent : from) {
    while (extent != 1 && next < to.size() && to[next] == 1)
      ++next;
    if (extent == 1) {
      result.push_back(kUnit);
      continue;
    }
    if (next == to.size() || to[next] != extent)
      return std::nullopt;
    result.push_back(place[next++]);
  }
  return result;
}

Place codegen::alongAxes(ArrayRef<int64_t> shape, ArrayRef<int64_t> axes,
                         ArrayRef<int64_t> place) {
  Place result;
  for (auto [extent, axis] : llvm::zip_equal(shape, axes))
    result.push_back(extent == 1 || axis == kOwnAxis ? kUnit : place[axis]);
  return result;
}

/// Returns the place of a value that has exactly the axes of the space: [0, 1,
/// ..., rank - 1].
static Place wholeSpace(size_t rank) {
  return llvm::to_vector<4>(llvm::seq<int64_t>(0, rank));
}

FailureOr<Place> codegen::operandPlace(OpOperand &operand,
                                       ArrayRef<int64_t> place,
                                       ArrayRef<int64_t> space) {
  Operation *op = operand.getOwner();
  ArrayRef<int64_t> shape = shapeOf(operand.get());
  // Operands of reductions and scatters have the axes of the space.
  if (isa<ReductionOpInterface>(op)) {
    if (shape != space)
      return op->emitOpError("reduces a value of another shape than the "
                             "kernel's iteration space, found [")
             << shape << "], expected [" << space << "]";
    return alignRight(shape, wholeSpace(space.size()));
  }
  if (auto scatter = dyn_cast<ScatterOpInterface>(op))
    return &operand == &scatter.getIndicesOperand()
               ? alongAxes(shape, scatter.getIndexAxes(),
                           wholeSpace(space.size()))
               : alignRight(shape, wholeSpace(space.size()));
  // Views only rename axes, so the place of the operand follows from the place
  // of the result.
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    std::optional<Place> through =
        throughReshape(shape, shapeOf(reshape.getOutput()), place);
    if (!through)
      return op->emitOpError(
                 "in a kernel may only add or drop axes of size 1, found [")
             << shape << "] to [" << shapeOf(reshape.getOutput()) << "]";
    return *through;
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    Place source(shape.size(), kUnit);
    for (auto [axis, from] : llvm::zip_equal(place, transpose.getPerm()))
      source[from] = axis;
    return source;
  }
  // Elementwise ops broadcast their operands along the result's axes.
  return alongAxes(shape, getOperandAxes(operand), place);
}

/// Returns the place of a scatter's result in the space of its updates. No loop
/// runs along the scattered axis of the result.
static Place scatteredPlace(ScatterOpInterface scatter,
                            ArrayRef<int64_t> space) {
  ArrayRef<int64_t> shape = shapeOf(scatter->getResult(0));
  int64_t axis = scatter.getScatteredAxis();
  Place place = alignRight(shape, wholeSpace(space.size()));
  for (int64_t d = 0; d < axis; ++d)
    place[d] = shape[d] == 1 ? kUnit : d;
  place[axis] = kUnit;
  return place;
}

FailureOr<Place> codegen::outputPlace(OpOperand &returned,
                                      ArrayRef<int64_t> space) {
  ArrayRef<int64_t> shape = shapeOf(returned.get());
  // No loop runs along the scattered axis of a scatter's result. A transpose
  // stores its result with permuted axes.
  Place all = wholeSpace(space.size());
  Operation *def = returned.get().getDefiningOp();
  if (auto scatter = dyn_cast_or_null<ScatterOpInterface>(def))
    return scatteredPlace(scatter, space);
  if (auto transpose = dyn_cast_or_null<TransposeOp>(def)) {
    Place source = alignRight(shapeOf(transpose.getInput()), all), place;
    for (int64_t from : transpose.getPerm())
      place.push_back(source[from]);
    return place;
  }
  // A reduction's result runs along the axes that are not reduced.
  std::optional<SmallVector<int64_t>> reduced;
  if (def)
    reduced = getReducedAxes(def);
  if (reduced && shape.size() + reduced->size() == space.size()) {
    Place kept;
    for (int64_t axis : all)
      if (!llvm::is_contained(*reduced, axis))
        kept.push_back(axis);
    return alignRight(shape, kept);
  }
  if (shape.size() > space.size())
    return returned.getOwner()->emitOpError("returns ")
           << returned.get().getType()
           << ", of higher rank than the kernel's iteration space [" << space
           << "]";
  return alignRight(shape, all);
}

Strides codegen::stridesAlongAxes(ArrayRef<int64_t> shape,
                                  ArrayRef<int64_t> place, size_t rank) {
  assert(shape.size() == place.size() && "an axis of the space per axis");
  Strides strides(rank, 0);
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis])
    if (place[axis] != kUnit) {
      assert(size_t(place[axis]) < rank && "an axis of the space");
      strides[place[axis]] += stride;
    }
  return strides;
}
