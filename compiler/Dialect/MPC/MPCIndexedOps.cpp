// Infers result shapes, and maps operand axes to result axes, for two kinds of
// ops: those that depend on an element's index, such as dropout, and those that
// read or write at given indices.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Facts/IndexBoxes.h"
#include "compiler/Dialect/MPC/Shapes/ShapeInference.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

using Axes = SmallVector<int64_t>;

static Axes axesFrom(int64_t begin, int64_t end) {
  return llvm::to_vector(llvm::seq(begin, end));
}

//===----------------------------------------------------------------------===//
// Ops that depend on the index of an element
//===----------------------------------------------------------------------===//

Axes DropoutOp::getOperandAxes(unsigned operand) {
  int64_t rank = shapeOf(getOutput()).size();
  return axesFrom(rank - shapeOf(getOperand(operand)).size(), rank);
}

Axes DropoutOp::getIndexedAxes() {
  return axesFrom(0, shapeOf(getOutput()).size());
}

SmallVector<int64_t> DropoutOp::getIndexedShape() {
  return SmallVector<int64_t>(getWhole() ? *getWhole() : shapeOf(getOutput()));
}

Axes RandomUniformOp::getOperandAxes(unsigned operand) {
  int64_t rank = shapeOf(getOutput()).size();
  return axesFrom(rank - shapeOf(getOperand(operand)).size(), rank);
}

Axes RandomUniformOp::getIndexedAxes() {
  return axesFrom(0, shapeOf(getOutput()).size());
}

// Labels have the axes of the result except the class axis.
Axes OneHotOp::getOperandAxes(unsigned) {
  Axes axes = axesFrom(0, shapeOf(getOutput()).size());
  axes.erase(axes.begin() + getAxis());
  return axes;
}

// A kernel reads one label for all its classes, so the label must be in memory,
// not in a register.
bool OneHotOp::readsMemory(unsigned) { return true; }

Axes OneHotOp::getIndexedAxes() { return {static_cast<int64_t>(getAxis())}; }

LogicalResult CheckIndicesOp::verify() {
  if (!isIndices(getIndices(), getInput().getType()))
    return emitOpError(
               "expected boxes of indices within an integer input, found ")
           << getIndices() << " of " << getInput().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Indices of parts
//===----------------------------------------------------------------------===//

// Fails if there are indices but the indexed axis of `data` has no elements, so
// that every index would be out of range.
static LogicalResult verifyNamed(std::optional<Location> loc, Value data,
                                 Value indices, int64_t axis) {
  if (shapeOf(data)[axis] > 0 || typeOf(indices).getNumElements() == 0)
    return success();
  return emitOptionalError(loc, "expected no indices of axis ", axis,
                           ", which has no elements, found [", shapeOf(indices),
                           "]");
}

// Infers the shape of all parts of `data` that `indices` select. A gather
// returns these parts; a scatter's updates have their shape.
static FailureOr<Shape> inferParts(std::optional<Location> loc, Value data,
                                   Value indices, int64_t axis,
                                   int64_t batchDims) {
  ArrayRef<int64_t> from = shapeOf(data), index = shapeOf(indices);
  // Call verifyAxis first, since verifyNamed reads the extent of `axis`.
  if (failed(verifyAxis(loc, axis, from.size())) ||
      failed(verifyNamed(loc, data, indices, axis)))
    return failure();
  // Data and indices share the leading batch axes: with batch_dims = 1, index
  // [b, i] names a row of data[b].
  int64_t most = std::min<int64_t>(axis, index.size());
  if (batchDims < 0 || batchDims > most)
    return emitOptionalError(loc, "expected batch_dims in [0, ", most,
                             "], found ", batchDims);
  if (from.take_front(batchDims) != index.take_front(batchDims))
    return emitOptionalError(loc, "expected the same batch axes, found [",
                             from.take_front(batchDims), "] and [",
                             index.take_front(batchDims), "]");
  // The axes of the indices replace the indexed axis: for data [4, 9, 6] and
  // indices [5, 2] along axis 1, the parts are [4, 5, 2, 6].
  Shape parts(from.take_front(axis));
  llvm::append_range(parts, index.drop_front(batchDims));
  llvm::append_range(parts, from.drop_front(axis + 1));
  return parts;
}

// Returns, for each axis of the indices, the axis of the selected parts with
// the same position. Without batch axes, these are the axes from `axis` on.
static Axes indexAxesOfParts(Value indices, int64_t axis, int64_t batchDims) {
  Axes axes = axesFrom(0, batchDims);
  int64_t own = shapeOf(indices).size() - batchDims;
  llvm::append_range(axes, axesFrom(axis, axis + own));
  return axes;
}

INFER(GatherOp) {
  FailureOr<Shape> parts =
      inferParts(loc, adaptor.getData(), adaptor.getIndices(),
                 adaptor.getAxis(), adaptor.getBatchDims());
  if (failed(parts))
    return failure();
  return infer(results, *parts, elementOf(adaptor.getData()));
}

Axes GatherOp::getOperandAxes(unsigned operand) {
  int64_t axis = getAxis(), batchDims = getBatchDims();
  if (operand == 1)
    return indexAxesOfParts(getIndices(), axis, batchDims);
  int64_t rank = shapeOf(getOutput()).size();
  int64_t behind = shapeOf(getData()).size() - axis - 1;
  Axes axes = axesFrom(0, axis);
  axes.push_back(kOwnAxis);
  llvm::append_range(axes, axesFrom(rank - behind, rank));
  return axes;
}

bool GatherOp::readsMemory(unsigned operand) { return operand == 0; }

//===----------------------------------------------------------------------===//
// Indices of elements
//===----------------------------------------------------------------------===//

// Checks that `indices` and `data` have one shape, except for the extent of
// `axis`.
static LogicalResult verifyLines(std::optional<Location> loc, Value data,
                                 Value indices, int64_t axis) {
  Shape from(shapeOf(data)), index(shapeOf(indices));
  if (failed(verifyAxis(loc, axis, from.size())))
    return failure();
  if (from.size() == index.size())
    from[axis] = index[axis];
  if (from != index)
    return emitOptionalError(loc, "expected indices of the data's shape [",
                             shapeOf(data), "] but for axis ", axis,
                             ", found [", shapeOf(indices), "]");
  return verifyNamed(loc, data, indices, axis);
}

INFER(GatherElementsOp) {
  if (failed(verifyLines(loc, adaptor.getData(), adaptor.getIndices(),
                         adaptor.getAxis())))
    return failure();
  return infer(results, shapeOf(adaptor.getIndices()),
               elementOf(adaptor.getData()));
}

Axes GatherElementsOp::getOperandAxes(unsigned operand) {
  Axes axes = axesFrom(0, shapeOf(getOutput()).size());
  if (operand == 0)
    axes[getAxis()] = kOwnAxis;
  return axes;
}

bool GatherElementsOp::readsMemory(unsigned operand) { return operand == 0; }

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static LogicalResult inferScatter(std::optional<Location> loc, Value data,
                                  Value updates, ArrayRef<int64_t> expected,
                                  ScatterReduction reduction,
                                  Components &results) {
  if (shapeOf(updates) != expected)
    return emitOptionalError(loc, "expected updates of shape [", expected,
                             "], found [", shapeOf(updates), "]");
  Type element = elementOf(data), update = elementOf(updates);
  if (element != update && !(isa<FloatType>(element) && isa<FloatType>(update)))
    return emitOptionalError(loc, "expected updates of type ", element,
                             ", found ", update);
  if (element.isInteger(1) && reduction != ScatterReduction::None)
    return emitOptionalError(loc, "expected numbers to reduce, found ",
                             element);
  return infer(results, shapeOf(data), element);
}

INFER(ScatterOp) {
  FailureOr<Shape> parts =
      inferParts(loc, adaptor.getData(), adaptor.getIndices(),
                 adaptor.getAxis(), adaptor.getBatchDims());
  if (failed(parts))
    return failure();
  return inferScatter(loc, adaptor.getData(), adaptor.getUpdates(), *parts,
                      adaptor.getReduction(), results);
}

Axes ScatterOp::getIndexAxes() {
  return indexAxesOfParts(getIndices(), getAxis(), getBatchDims());
}

bool ScatterOp::hasUniqueIndices() { return getUniqueIndices(); }

INFER(ScatterElementsOp) {
  if (failed(verifyLines(loc, adaptor.getData(), adaptor.getIndices(),
                         adaptor.getAxis())))
    return failure();
  return inferScatter(loc, adaptor.getData(), adaptor.getUpdates(),
                      shapeOf(adaptor.getIndices()), adaptor.getReduction(),
                      results);
}

Axes ScatterElementsOp::getIndexAxes() {
  return axesFrom(0, shapeOf(getIndices()).size());
}
