// Folds ops that move elements, such as transposes and slices. An op that moves
// nothing folds to its operand; an op on constants folds to a constant. Models
// compute shapes with such ops, and these folders, with the arithmetic of
// MPCFold.cpp, resolve the shapes.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Fold/ConstantElements.h"

using namespace mlir;
using namespace mpc;
using llvm::APInt;

// Folds `op` to its input if both types are equal.
template <typename OpTy>
static OpFoldResult foldIdentity(OpTy op) {
  return op.getInput().getType() == op.getType() ? op.getInput() : Value();
}

// Makes a constant of `type` by moving elements of `source`: the element at
// `index` is the source element at the row-major position `positionOf(index)`.
// Null if `source` is no constant, too large, or of another element type.
static OpFoldResult
pick(RankedTensorType type, Attribute source,
     llvm::function_ref<int64_t(ArrayRef<int64_t>)> positionOf) {
  auto elements = ConstantElements::read(source);
  if (!elements || elements->getElementType() != type.getElementType())
    return {};
  if (type.getNumElements() == 0)
    return DenseElementsAttr::get(type, ArrayRef<Attribute>());
  if (elements->isSplat())
    return makeElements(type, elements->getBits(0));
  if (type.getNumElements() > kMostFoldedResults)
    return {};
  SmallVector<APInt> bits;
  forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index) {
    bits.push_back(elements->getBits(positionOf(index)));
  });
  return makeElements(type, bits);
}

//===----------------------------------------------------------------------===//
// Changes of shape
//===----------------------------------------------------------------------===//

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (OpFoldResult same = foldIdentity(*this))
    return same;
  auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput());
  if (dense && dense.getElementType() == getType().getElementType())
    return dense.reshape(getType());
  return pick(getType(), adaptor.getInput(), [&](ArrayRef<int64_t> index) {
    return getPosition(index, getType().getShape());
  });
}

// Folds a broadcast of a constant. Large floats and booleans are not folded,
// because a kernel can broadcast them as it reads. Other integers always fold,
// because they may be parts of a shape.
OpFoldResult ExpandOp::fold(FoldAdaptor adaptor) {
  if (OpFoldResult same = foldIdentity(*this))
    return same;
  auto input = dyn_cast_or_null<ElementsAttr>(adaptor.getInput());
  const Type element = getType().getElementType();
  if (input && !input.isSplat() &&
      (isa<FloatType>(element) || element.isInteger(1)) &&
      getType().getNumElements() > kMostFoldedElements)
    return {};
  return pick(getType(), input, [&](ArrayRef<int64_t> index) {
    return getPosition(index, shapeOf(getInput()));
  });
}

OpFoldResult SumToSizeOp::fold(FoldAdaptor) { return foldIdentity(*this); }

//===----------------------------------------------------------------------===//
// Changes of position
//===----------------------------------------------------------------------===//

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::equal(getPerm(), llvm::seq<int64_t>(0, getPerm().size())))
    return foldIdentity(*this);
  return pick(getType(), adaptor.getInput(), [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> at(index.size());
    for (auto [to, from] : llvm::enumerate(getPerm()))
      at[from] = index[to];
    return getPosition(at, shapeOf(getInput()));
  });
}

// A slice to the type of its input is the identity, unless a stride is not 1: a
// stride of -1 reverses the axis.
OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (OpFoldResult same = isDense(getStrides()) ? foldIdentity(*this) : Value())
    return same;
  return pick(getType(), adaptor.getInput(), [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> at(getOffsets());
    for (auto [axis, place] : llvm::enumerate(at))
      place += index[axis] * (getStrides().empty() ? 1 : getStrides()[axis]);
    return getPosition(at, shapeOf(getInput()));
  });
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  return isDense(getStrides()) ? foldIdentity(*this) : Value();
}

OpFoldResult ConcatOp::fold(FoldAdaptor adaptor) {
  if (getType().getNumElements() > kMostFoldedResults)
    return {};
  SmallVector<ConstantElements> parts;
  for (Attribute input : adaptor.getInputs()) {
    auto part = ConstantElements::read(input);
    if (!part || part->getElementType() != getType().getElementType())
      return {};
    parts.push_back(std::move(*part));
  }
  if (getType().getNumElements() == 0)
    return DenseElementsAttr::get(getType(), ArrayRef<Attribute>());
  // A part is contiguous in the result for each index of the axes before the
  // joined axis. Append these runs in order.
  SmallVector<APInt> bits;
  int64_t outer =
      ShapedType::getNumElements(getType().getShape().take_front(getAxis()));
  for (int64_t row = 0; row < outer; ++row)
    for (const ConstantElements &part : parts)
      for (int64_t i = 0, run = part.getType().getNumElements() / outer;
           i < run; ++i)
        bits.push_back(part.getBits(row * run + i));
  return makeElements(getType(), bits);
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

// With batch axes b, axes p before `axis`, and axes s after it: y[b, p, i, s] =
// data[b, p, indices[b, i], s].
OpFoldResult GatherOp::fold(FoldAdaptor adaptor) {
  auto indices = ConstantElements::read(adaptor.getIndices());
  if (!indices)
    return {};
  ArrayRef<int64_t> data = shapeOf(getData()), named = shapeOf(getIndices());
  int64_t axis = getAxis(), batch = getBatchDims(), size = data[axis];
  // A negative index counts from the end of the axis. An index outside the axis
  // is an error at run time, so do not fold.
  SmallVector<int64_t> rows;
  for (int64_t i = 0, n = indices->getType().getNumElements(); i < n; ++i) {
    int64_t row = indices->getInteger(i).getExtValue();
    if (row < -size || row >= size)
      return {};
    rows.push_back(row < 0 ? row + size : row);
  }
  return pick(getType(), adaptor.getData(), [&](ArrayRef<int64_t> index) {
    // Split `index` into batch axes, axes before `axis`, axes of the indices,
    // and axes after.
    ArrayRef<int64_t> inner = index.slice(axis, named.size() - batch);
    SmallVector<int64_t> place(index.take_front(batch));
    llvm::append_range(place, inner);
    SmallVector<int64_t> at(index.take_front(axis));
    at.push_back(rows[getPosition(place, named)]);
    llvm::append_range(at, index.drop_front(axis + inner.size()));
    return getPosition(at, data);
  });
}
