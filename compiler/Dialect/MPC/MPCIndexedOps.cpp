// Shape inference and operand axes of ops that depend on an element's index,
// for example dropout, or that read and write at given indices.
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
// Ops that compute with their index
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

// Labels lack the class axis.
Axes OneHotOp::getOperandAxes(unsigned) {
  Axes axes = axesFrom(0, shapeOf(getOutput()).size());
  axes.erase(axes.begin() + getAxis());
  return axes;
}

// The kernel loops over the classes of a label, so the label must be in memory.
bool OneHotOp::readsMemory(unsigned) { return true; }

Axes OneHotOp::getIndexedAxes() { return {static_cast<int64_t>(getAxis())}; }

LogicalResult CheckIndicesOp::verify() {
  if (!isIndices(getIndices(), getInput().getType()))
    return emitOpError("expected boxes of integers of the input, found ")
           << getIndices();
  return success();
}

//===----------------------------------------------------------------------===//
// Indices of parts
//===----------------------------------------------------------------------===//

// Checks that the indexed axis has elements if there are any indices.
static LogicalResult verifyNamed(std::optional<Location> loc, Value data,
                                 Value indices, int64_t axis) {
  if (shapeOf(data)[axis] > 0 || typeOf(indices).getNumElements() == 0)
    return success();
  return emitOptionalError(loc, "expected no indices of axis ", axis,
                           ", which has no elements, found [", shapeOf(indices),
                           "]");
}

// Infers the shape of the parts of `data` that `indices` name, which is also
// the shape of a scatter's updates.
static FailureOr<Shape> inferParts(std::optional<Location> loc, Value data,
                                   Value indices, int64_t axis,
                                   int64_t batchDims) {
  ArrayRef<int64_t> from = shapeOf(data), index = shapeOf(indices);
  // verifyAxis must come first: verifyNamed reads the extent of the axis.
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
  // The axes of the indices replace the indexed axis: data [4, 9, 6] at indices
  // [5, 2] along axis 1 has parts [4, 5, 2, 6].
  Shape parts(from.take_front(axis));
  llvm::append_range(parts, index.drop_front(batchDims));
  llvm::append_range(parts, from.drop_front(axis + 1));
  return parts;
}

// Returns, per axis of the indices, the axis of the parts along which it runs.
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

// Checks that indices have the data's shape except along `axis`.
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
