// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

#include "frontends/ONNX/Importer/FoldElements.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Value mpc::onnx_frontend::createConstant(NodeImporter &node,
                                         const HostTensor &tensor) {
  return node.emit<ConstantOp>(
      {}, {node.attribute("value", tensor.toAttribute(node.getOutputName(0)))},
      tensor.type);
}

Value mpc::onnx_frontend::numberConstant(NodeImporter &node, double value,
                                         Type elementType) {
  if (isa<FloatType>(elementType))
    return floatConstant(node, elementType, {}, value);
  return createConstant(
      node, makeIntegers(elementType, {}, static_cast<int64_t>(value)));
}

Value mpc::onnx_frontend::integerConstant(NodeImporter &node,
                                          ArrayRef<int64_t> shape,
                                          ArrayRef<int64_t> values) {
  return createConstant(
      node, makeIntegers(node.attributes().getI64Type(), shape, values));
}

Value mpc::onnx_frontend::floatConstant(NodeImporter &node, Type elementType,
                                        ArrayRef<int64_t> shape,
                                        ArrayRef<double> values) {
  if (!isa<FloatType>(elementType)) {
    (void)node.unsupported("expected floats, found " +
                           printElementType(elementType));
    return {};
  }
  return createConstant(node, makeFloats(elementType, shape, values));
}

bool mpc::onnx_frontend::canList(NodeImporter &node, int64_t extent) {
  constexpr int64_t kMostPlaces = int64_t(1) << 24;
  if (extent <= kMostPlaces)
    return true;
  (void)node.unsupported("an axis of " + Twine(extent) +
                         " elements is too long, expected " +
                         Twine(kMostPlaces) + " at most");
  return false;
}

Value mpc::onnx_frontend::iota(NodeImporter &node, int64_t rank, int64_t axis,
                               int64_t size) {
  if (!canList(node, size))
    return {};
  assert(axis >= 0 && axis < rank && "an axis of the tensor");
  Integers shape(rank, 1);
  shape[axis] = size;
  return integerConstant(node, shape,
                         llvm::to_vector(llvm::seq<int64_t>(0, size)));
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

LogicalResult mpc::onnx_frontend::markIndices(NodeImporter &node,
                                              unsigned input,
                                              const IndexBox &box) {
  Type type = node.operandType(input).getElementType();
  if (!type.isSignlessInteger(32) && !type.isSignlessInteger(64))
    return node.invalid("expected '" + node.getInputName(input) +
                        "' to be indices of int32 or int64, found " +
                        printElementType(type));
  if (Value value = node.operand(input))
    node.getFunction().markIndices(node.getLocation(), value, box);
  return success();
}

LogicalResult mpc::onnx_frontend::markIndices(NodeImporter &node,
                                              unsigned input, int64_t size) {
  return markIndices(node, input,
                     createWholeBox(node.operandShape(input), size));
}

void mpc::onnx_frontend::markIndices(NodeImporter &node, Value indices,
                                     int64_t size) {
  if (indices)
    node.getFunction().markIndices(
        node.getLocation(), indices,
        createWholeBox(NodeImporter::shapeOf(indices), size));
}

LogicalResult mpc::onnx_frontend::checkIndices(NodeImporter &node,
                                               unsigned input, int64_t size) {
  std::optional<HostTensor> indices = node.constant(input);
  if (!indices || indices->isFloat() || node.isState(input))
    return markIndices(node, input, size);
  for (int64_t index : indices->getIntegers())
    if (index < -size || index >= size)
      return node.invalid(
          "index " + Twine(index) + " of '" + node.getInputName(input) +
          "' is outside an axis of " + Twine(size) + " elements");
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Value mpc::onnx_frontend::castTo(NodeImporter &node, Value value,
                                 Type elementType) {
  if (!value || NodeImporter::typeOf(value).getElementType() == elementType)
    return value;
  return node.emit<CastOp>({value}, {},
                           NodeImporter::typeOf(value).clone(elementType));
}

Value mpc::onnx_frontend::expand(NodeImporter &node, Value value,
                                 ArrayRef<int64_t> shape) {
  if (!value || NodeImporter::shapeOf(value) == shape)
    return value;
  return node.emit<ExpandOp>({value}, {},
                             NodeImporter::typeOf(value).clone(shape));
}

Value mpc::onnx_frontend::transpose(NodeImporter &node, Value value,
                                    ArrayRef<int64_t> perm) {
  assert((!value || NodeImporter::shapeOf(value).size() == perm.size()) &&
         "a permutation of all axes");
  if (llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())))
    return value;
  return node.emit<TransposeOp>({value}, {node.attribute("perm", perm)});
}

Value mpc::onnx_frontend::slice(NodeImporter &node, Value value,
                                ArrayRef<int64_t> offsets,
                                ArrayRef<int64_t> sizes,
                                ArrayRef<int64_t> strides) {
  assert(offsets.size() == sizes.size() && "an offset and a size per axis");
  if (!value || (NodeImporter::shapeOf(value) == sizes && isDense(strides)))
    return value;
  SmallVector<NamedAttribute> attributes = {node.attribute("offsets", offsets),
                                            node.attribute("sizes", sizes)};
  if (!isDense(strides))
    attributes.push_back(node.attribute("strides", strides));
  return node.emit<SliceOp>({value}, attributes);
}

Value mpc::onnx_frontend::concatenate(NodeImporter &node, ArrayRef<Value> parts,
                                      int64_t axis) {
  assert(!parts.empty() && "a concat has parts");
  if (parts.size() == 1)
    return parts.front();
  return node.emit<ConcatOp>(parts, {node.attribute("axis", axis)});
}

Value mpc::onnx_frontend::replaceBox(NodeImporter &node, Value data,
                                     Value box) {
  assert((!box || NodeImporter::shapeOf(box).size() ==
                      NodeImporter::shapeOf(data).size()) &&
         "a box has the rank of the data");
  for (int64_t axis = NodeImporter::shapeOf(data).size(); box && axis-- > 0;) {
    SmallVector<int64_t> sizes(NodeImporter::shapeOf(box));
    int64_t own = sizes[axis];
    int64_t whole = NodeImporter::shapeOf(data)[axis];
    if (own == whole)
      continue;
    SmallVector<int64_t> offsets(sizes.size(), 0);
    offsets[axis] = own;
    sizes[axis] = whole - own;
    box = node.emit<ConcatOp>({box, slice(node, data, offsets, sizes)},
                              {node.attribute("axis", axis)});
  }
  return box;
}

Value mpc::onnx_frontend::gather(NodeImporter &node, Value data, Value indices,
                                 int64_t axis, int64_t batchDims) {
  return node.emit<GatherOp>(
      {data, indices},
      {node.attribute("axis", axis), node.attribute("batch_dims", batchDims)});
}

// Returns the common difference of adjacent indices, such as 2 for [1, 3, 5].
// nullopt if the difference varies or is 0.
static std::optional<int64_t> findStride(ArrayRef<int64_t> indices) {
  if (indices.size() < 2)
    return 1;
  int64_t stride = indices[1] - indices[0];
  for (size_t i = 2; i < indices.size(); ++i)
    if (indices[i] - indices[i - 1] != stride)
      return std::nullopt;
  return stride == 0 ? std::nullopt : std::optional(stride);
}

// True if `indices` repeats each element of an axis of `extent` elements
// equally often, in order: [0, 0, 1, 1] for an extent of 2.
static bool repeats(ArrayRef<int64_t> indices, int64_t extent) {
  int64_t copies = extent > 0 ? indices.size() / extent : 0;
  if (copies * extent != static_cast<int64_t>(indices.size()))
    return false;
  for (auto [i, index] : llvm::enumerate(indices))
    if (index != static_cast<int64_t>(i) / copies)
      return false;
  return copies > 0;
}

Value mpc::onnx_frontend::take(NodeImporter &node, Value value, int64_t axis,
                               ArrayRef<int64_t> indices) {
  if (!value)
    return {};
  Integers shape(NodeImporter::shapeOf(value)), result(shape);
  assert(axis >= 0 && size_t(axis) < shape.size() && "an axis of the value");
  int64_t extent = shape[axis], count = indices.size();
  assert(llvm::all_of(
             indices,
             [&](int64_t index) { return index >= 0 && index < extent; }) &&
         "indices are positions on the axis");
  result[axis] = count;
  if (std::optional<int64_t> stride = findStride(indices)) {
    Integers offsets(shape.size(), 0), strides(shape.size(), 1);
    offsets[axis] = count > 0 ? indices.front() : 0;
    strides[axis] = *stride;
    return slice(node, value, offsets, result, strides);
  }
  if (repeats(indices, extent)) {
    shape.insert(shape.begin() + axis + 1, 1);
    Value apart = node.reshape(value, shape);
    shape[axis + 1] = count / extent;
    return node.reshape(expand(node, apart, shape), result);
  }
  return gather(node, value, integerConstant(node, {count}, indices), axis);
}
