// Imports pooling: maxima, means and norms of sliding windows, and MaxUnpool.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Math/Norms.h"
#include "frontends/ONNX/Ops/NN/Window.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Maxima
//===----------------------------------------------------------------------===//

// Converts the number of an element in an array of shape `extents` from
// row-major to column-major order.
static Value toColumnMajor(NodeImporter &node, Value number,
                           ArrayRef<int64_t> extents) {
  Value result = integerConstant(node, {}, 0);
  // For an element (i0, i1, i2) of an array of shape (D0, D1, D2): ((i2 * D1) +
  // i1) * D0 + i0.
  for (int64_t extent : llvm::reverse(extents)) {
    Value size = integerConstant(node, {}, extent);
    Value index =
        node.emit<ModOp>({number, size}, {node.attribute("fmod", false)});
    number = node.emit<DivOp>({number, size});
    result = node.emit<AddOp>({node.emit<MulOp>({result, size}), index});
  }
  return result;
}

// Converts mpc's indices, which count within the pooled plane, to ONNX's
// Indices, which count within the whole tensor.
static Value indicesOfTensor(NodeImporter &node, MaxPoolOp pool,
                             bool isColumnMajor) {
  ArrayRef<int64_t> shape = NodeImporter::shapeOf(pool.getInput());
  ArrayRef<int64_t> extents = shape.drop_front(2);
  int64_t planes = shape[0] * shape[1];
  Value place = castTo(node, pool.getIndices(), node.attributes().getI64Type());
  if (isColumnMajor)
    place = toColumnMajor(node, place, extents);
  if (!place || !canList(node, planes))
    return {};
  SmallVector<int64_t> perPlane(shape.size(), 1), starts;
  perPlane[0] = shape[0], perPlane[1] = shape[1];
  for (int64_t plane = 0; plane < planes; ++plane)
    starts.push_back(plane * ShapedType::getNumElements(extents));
  Value start = integerConstant(node, perPlane, starts);
  return node.emit<AddOp>({place, start});
}

static LogicalResult importMaxPool(NodeImporter &node) {
  auto window = readWindow(node, node.operandShape(0), {});
  if (failed(window))
    return failure();
  int64_t order = node.integer("storage_order", 0);
  if (order != 0 && order != 1)
    return node.invalid("expected attribute 'storage_order' to be 0 or 1, "
                        "found " +
                        Twine(order));
  auto attributes =
      window->poolAttributes(node, node.integer("ceil_mode", 0) != 0);
  attributes.push_back(node.attribute("dilations", window->dilations));
  // MaxPoolOp takes floats; f32 holds all 8-bit integers exactly.
  Value x = node.operand(0);
  Type element = elementTypeOf(x);
  if (element.isInteger(8))
    x = castTo(node, x, node.attributes().getF32Type());
  auto op = node.create<MaxPoolOp>({x}, attributes);
  if (!op || failed(node.define(0, castTo(node, op.getOutput(), element))))
    return failure();
  if (!node.hasOutput(1))
    return success();
  node.setSaved(1, op.getIndices());
  return node.define(1, indicesOfTensor(node, op, order == 1));
}

// Returns the shape (N, C, extents...) before a pooling whose windows have
// positions `shape`: the extents that the windows cover.
static FailureOr<SmallVector<int64_t>> getUnpooledShape(NodeImporter &node,
                                                        ArrayRef<int64_t> shape,
                                                        const Window &window) {
  SmallVector<int64_t> result(shape.take_front(2));
  size_t rank = window.kernel.size();
  for (size_t i = 0; i < rank; ++i) {
    int64_t reach;
    if (llvm::MulOverflow(shape[i + 2] - 1, window.strides[i], reach))
      return node.invalid("the result is too large: " + Twine(shape[i + 2]) +
                          " windows with a stride of " +
                          Twine(window.strides[i]) + " on spatial axis " +
                          Twine(i));
    result.push_back(reach + window.kernel[i] - window.pads[i] -
                     window.pads[rank + i]);
  }
  if (llvm::any_of(result, [](int64_t extent) { return extent < 0; }) ||
      !getCheckedBytes(result, node.attributes().getI64Type()))
    return node.invalid("the result of shape " + printShape(result) +
                        " has a negative extent or is too large");
  return result;
}

// Imports MaxUnpool: writes each element to its index in the shape before the
// pooling, and zeros elsewhere. Input 2 may ask for a larger shape, with zeros
// at the end.
static LogicalResult importMaxUnpool(NodeImporter &node) {
  Value x = node.operand(0);
  ArrayRef<int64_t> shape = node.operandShape(0);
  if (node.operandShape(1) != shape)
    return node.invalid("expected indices of the shape of the input" +
                        node.found({0, 1}));
  auto window = readWindow(node, shape, {});
  if (failed(window))
    return failure();
  auto unpooled = getUnpooledShape(node, shape, *window);
  if (failed(unpooled))
    return failure();
  SmallVector<int64_t> result = *unpooled;
  if (node.hasInput(2)) {
    auto wanted = node.integers(2, "the shape");
    if (failed(wanted))
      return failure();
    result = *wanted;
    bool fits = result.size() == unpooled->size();
    for (size_t i = 0; fits && i < result.size(); ++i)
      fits = result[i] >= (*unpooled)[i];
    if (!fits || !getCheckedBytes(result, node.attributes().getI64Type()))
      return node.invalid(
          "expected a result shape of at least " + printShape(*unpooled) +
          ", which the windows cover, found " + printShape(result));
  }

  // Indices count in the flattened result, so scatter into that.
  int64_t count = ShapedType::getNumElements(shape);
  int64_t places = ShapedType::getNumElements(*unpooled);
  if (failed(checkIndices(node, 1, places)))
    return failure();
  Value zeros = expand(node, numberConstant(node, 0, elementTypeOf(x)), places);
  Value indices = castTo(node, node.reshape(node.operand(1), count),
                         node.attributes().getI64Type());
  auto none =
      ScatterReductionAttr::get(node.getContext(), ScatterReduction::None);
  Value flat = node.emit<ScatterElementsOp>(
      {zeros, indices, node.reshape(x, count)},
      {node.attribute("axis", int64_t(0)), node.attribute("reduction", none)});
  if (!flat)
    return failure();
  Value whole = node.reshape(flat, *unpooled);
  if (result == *unpooled)
    return node.define(0, whole);
  SmallVector<int64_t> origin(result.size(), 0);
  return node.define(
      0, node.emit<PadOp>({whole},
                          {node.attribute("offsets", ArrayRef<int64_t>(origin)),
                           node.attribute("shape", ArrayRef<int64_t>(result)),
                           node.attribute("value", 0.0)}));
}

//===----------------------------------------------------------------------===//
// Means and norms
//===----------------------------------------------------------------------===//

static LogicalResult importAveragePool(NodeImporter &node) {
  auto window = readWindow(node, node.operandShape(0), {});
  if (failed(window))
    return failure();
  auto attributes = window->meanAttributes(node, readPoolEdges(node));
  auto op = node.create<AveragePoolOp>({node.operand(0)}, attributes);
  return op ? node.define(0, op.getOutput()) : failure();
}

static LogicalResult importGlobalAveragePool(NodeImporter &node) {
  auto op = node.create<GlobalAveragePoolOp>({node.operand(0)});
  return op ? node.define(0, op.getOutput()) : failure();
}

// Pads `value` with zeros so that every window is whole. In ceil_mode, adds the
// padding that the last window needs at the end.
static Value padForWindows(NodeImporter &node, Value value,
                           const Window &window, bool ceilMode) {
  if (!value)
    return {};
  SmallVector<int64_t> shape(NodeImporter::shapeOf(value));
  SmallVector<int64_t> offsets(shape.size(), 0);
  size_t rank = window.kernel.size();
  for (size_t d = 0; d < rank; ++d) {
    int64_t &extent = shape[d + 2];
    offsets[d + 2] = window.pads[d];
    int64_t end = offsets[d + 2] + extent; // end of the input
    extent = end + window.pads[rank + d];
    int64_t reach = (window.kernel[d] - 1) * window.dilations[d] + 1;
    int64_t rest = (extent - reach) % window.strides[d];
    int64_t next = extent - rest + window.strides[d] - reach;
    // Leave out a last window that would see only padding.
    if (ceilMode && extent >= reach && rest > 0 && next < end)
      extent += window.strides[d] - rest;
  }
  if (NodeImporter::shapeOf(value) == ArrayRef<int64_t>(shape))
    return value;
  return node.emit<PadOp>(
      {value}, {node.attribute("offsets", ArrayRef<int64_t>(offsets)),
                node.attribute("shape", ArrayRef<int64_t>(shape)),
                node.attribute("value", 0.0)});
}

// Imports LpPool, the p-norm of each window: the p-th root of mean(|x|^p) *
// window size.
static LogicalResult importLpPool(NodeImporter &node) {
  auto window = readWindow(node, node.operandShape(0), {});
  FailureOr<int64_t> p = readPower(node);
  if (failed(window) || failed(p))
    return failure();
  bool ceilMode = node.integer("ceil_mode", 0) != 0;
  return defineInF32(node, [&](Value x) -> Value {
    Value powers = padForWindows(node, powerOf(node, x, *p), *window, ceilMode);
    window->pads.assign(window->pads.size(), 0);
    // Padding counts in the mean, because the mean is multiplied by the whole
    // window size below.
    PoolEdges edges;
    edges.countsPadding = true;
    auto attributes = window->meanAttributes(node, edges);
    Value mean = node.emit<AveragePoolOp>({powers}, attributes);
    if (!mean)
      return {};
    Value count = numberConstant(
        node, ShapedType::getNumElements(window->kernel), elementTypeOf(mean));
    return flatRoot(node, node.emit<MulOp>({mean, count}), *p);
  });
}

ArrayRef<OpEntry> mpc::onnx_frontend::getPoolingOps() {
  static const OpEntry entries[] = {
      {"", "AveragePool", 1, kNoEnd, 1, 1, 1, importAveragePool},
      {"", "GlobalAveragePool", 1, kNoEnd, 1, 1, 1, importGlobalAveragePool},
      {"", "LpPool", 2, kNoEnd, 1, 1, 1, importLpPool},
      {"", "MaxPool", 1, kNoEnd, 1, 1, 2, importMaxPool},
      {"", "MaxUnpool", 9, kNoEnd, 2, 3, 1, importMaxUnpool},
  };
  return entries;
}
