// Imports products and convolutions of quantized numbers. Integers are
// multiplied and summed in f64, which the Precision stage leaves alone. f64
// holds sums of 2^35 products of 8-bit numbers exactly. The cast to i32 keeps
// the low bits, which is how i32 sums wrap.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Math/Quantization.h"
#include "frontends/ONNX/Ops/NN/Sampling.h"
#include "frontends/ONNX/Ops/NN/Window.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

// Reshapes input `input`, a scale or zero point, to broadcast to matrices of
// `shape`. The input is a single number, a vector with a number per row (`axis`
// -2) or per column (`axis` -1), or a tensor of equal rank that broadcasts
// already.
static FailureOr<Value> spreadOverLines(NodeImporter &node, unsigned input,
                                        ArrayRef<int64_t> shape, int64_t axis) {
  ArrayRef<int64_t> own = node.operandShape(input);
  if (own.size() <= 1)
    return spreadScale(node, input, shape, axis, 0);
  // With a number per row the shape is (..., M, 1), with a number per column
  // (..., 1, N).
  auto whole = broadcastShapes(own, shape);
  bool isOfLines = axis < 0 && own.size() == shape.size() &&
                   own[own.size() + (axis == -2 ? -1 : -2)] == 1;
  if (!isOfLines || failed(whole) || ArrayRef<int64_t>(*whole) != shape)
    return node.invalid("expected '" + node.getInputName(input) +
                        "' to hold one number, or one for each row or column "
                        "of the matrices of shape " +
                        printShape(shape) + node.found({input}));
  return node.operand(input);
}

// Returns input `input`, 8-bit integers reshaped to `shape`, minus its zero
// point, as f64.
static FailureOr<Value> readCentered(NodeImporter &node, unsigned input,
                                     unsigned zeroPoint,
                                     ArrayRef<int64_t> shape, int64_t axis) {
  auto type = node.operandType(input);
  if (!isQuantized(type.getElementType(), 8))
    return node.invalid("expected 8-bit integers" + node.found({input}));
  Value x = toPlace(node, node.reshape(node.operand(input), shape));
  if (!node.hasInput(zeroPoint))
    return x;
  if (node.operandType(zeroPoint).getElementType() != type.getElementType())
    return node.invalid("expected the zero point to have the type of '" +
                        node.getInputName(input) + "'" +
                        node.found({input, zeroPoint}));
  auto offset = spreadOverLines(node, zeroPoint, shape, axis);
  if (failed(offset))
    return failure();
  return node.emit<SubOp>({x, toPlace(node, *offset)});
}

namespace {
/// The operand shapes of an integer matrix product. A vector operand gets a
/// second axis of size 1, which is removed from the result.
struct IntegerProduct {
  SmallVector<int64_t> a, b;
  bool isRow, isColumn;
};
} // namespace

static FailureOr<IntegerProduct> readProduct(NodeImporter &node,
                                             unsigned inputB) {
  IntegerProduct product;
  product.a.assign(node.operandShape(0).begin(), node.operandShape(0).end());
  product.b.assign(node.operandShape(inputB).begin(),
                   node.operandShape(inputB).end());
  if (product.a.empty() || product.b.empty())
    return node.invalid("expected operands of rank 1 and more" +
                        node.found({0, inputB}));
  product.isRow = product.a.size() == 1;
  product.isColumn = product.b.size() == 1;
  if (product.isRow)
    product.a.insert(product.a.begin(), 1);
  if (product.isColumn)
    product.b.push_back(1);
  return product;
}

static Value dropLines(NodeImporter &node, Value value,
                       const IntegerProduct &product) {
  if (!value)
    return {};
  SmallVector<int64_t> shape(NodeImporter::shapeOf(value));
  if (product.isRow)
    shape.erase(shape.end() - 2);
  if (product.isColumn)
    shape.pop_back();
  return node.reshape(value, shape);
}

static LogicalResult importMatMulInteger(NodeImporter &node) {
  FailureOr<IntegerProduct> product = readProduct(node, 1);
  if (failed(product))
    return failure();
  auto a = readCentered(node, 0, 2, product->a, -2);
  auto b = readCentered(node, 1, 3, product->b, -1);
  if (failed(a) || failed(b))
    return failure();
  Value sums = toWhole(node, node.emit<MatMulOp>({*a, *b}));
  return node.define(0, castTo(node, dropLines(node, sums, *product),
                               node.attributes().getI32Type()));
}

// Multiplies `sums` (f64) by the scales of both operands and divides by the
// scale of the result. Input `scale` is the result's scale and input `scale` +
// 1 the result's zero point, single numbers.
static Value rescale(NodeImporter &node, Value sums, Value scaleA, Value scaleB,
                     unsigned scale) {
  for (unsigned input : {scale, scale + 1})
    if (node.operandType(input).getNumElements() != 1) {
      (void)node.unsupported("expected one number" + node.found({input}));
      return {};
    }
  Type type = node.operandType(scale + 1).getElementType();
  if (!isQuantized(type, 8)) {
    (void)node.invalid(
        "expected 8-bit integers as the zero point of the result" +
        node.found({scale + 1}));
    return {};
  }
  // The factor is scale_a * scale_b / scale_y, in f32.
  Value scales =
      node.emit<MulOp>({toSingle(node, scaleA), toSingle(node, scaleB)});
  Value factor = node.emit<DivOp>(
      {scales, toSingle(node, node.reshape(node.operand(scale), {}))});
  Value scaled = node.emit<MulOp>({toSingle(node, sums), factor});
  return saturate(node, scaled, node.reshape(node.operand(scale + 1), {}),
                  type);
}

static LogicalResult importQLinearMatMul(NodeImporter &node) {
  FailureOr<IntegerProduct> product = readProduct(node, 3);
  if (failed(product))
    return failure();
  auto a = readCentered(node, 0, 2, product->a, -2);
  auto b = readCentered(node, 3, 5, product->b, -1);
  auto scaleA = spreadOverLines(node, 1, product->a, -2);
  auto scaleB = spreadOverLines(node, 4, product->b, -1);
  if (failed(a) || failed(b) || failed(scaleA) || failed(scaleB))
    return failure();
  Value sums = node.emit<MatMulOp>({*a, *b});
  return node.define(
      0, dropLines(node, rescale(node, sums, *scaleA, *scaleB, 6), *product));
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

// Computes the sums of an integer convolution in f64. The zero point is
// subtracted first, so padding with 0 stands for the zero point.
static FailureOr<Value> convolve(NodeImporter &node, unsigned inputW,
                                 unsigned zeroPointX, unsigned zeroPointW) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  ArrayRef<int64_t> filters = node.operandShape(inputW);
  if (shape.size() < 3 || filters.size() != shape.size())
    return node.invalid("expected an input of shape (N, C, d...) and a weight "
                        "of shape (M, C/group, k...)" +
                        node.found({0, inputW}));
  if (node.hasInput(zeroPointX) &&
      node.operandType(zeroPointX).getNumElements() != 1)
    return node.invalid("expected one number as the zero point of the input" +
                        node.found({zeroPointX}));
  auto x = readCentered(node, 0, zeroPointX, shape, 1);
  auto w = readCentered(node, inputW, zeroPointW, filters, 0);
  int64_t group = node.integer("group", 1);
  auto window = readWindow(node, shape, filters.drop_front(2));
  if (failed(x) || failed(w) || failed(window))
    return failure();
  return node.emit<ConvOp>({*x, *w}, window->convAttributes(node, group));
}

static LogicalResult importConvInteger(NodeImporter &node) {
  auto sums = convolve(node, 1, 2, 3);
  if (failed(sums))
    return failure();
  return node.define(
      0, castTo(node, toWhole(node, *sums), node.attributes().getI32Type()));
}

static LogicalResult importQLinearConv(NodeImporter &node) {
  auto sums = convolve(node, 3, 2, 5);
  if (failed(sums) || !*sums)
    return failure();
  // Bias and weight scales have one number per filter, along axis 1 of the
  // result.
  ArrayRef<int64_t> result = NodeImporter::shapeOf(*sums);
  Value total = *sums;
  if (node.hasInput(8)) {
    auto bias = spreadScale(node, 8, result, 1, 0);
    if (failed(bias))
      return failure();
    total = node.emit<AddOp>({total, toPlace(node, *bias)});
  }
  if (node.operandType(1).getNumElements() != 1)
    return node.invalid("expected one number as the scale of the input" +
                        node.found({1}));
  auto scaleW = spreadScale(node, 4, result, 1, 0);
  if (failed(scaleW))
    return failure();
  return node.define(
      0, rescale(node, total, node.reshape(node.operand(1), {}), *scaleW, 6));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getIntegerProductOps() {
  static const OpEntry entries[] = {
      {"", "ConvInteger", 10, kNoEnd, 2, 4, 1, importConvInteger},
      {"", "MatMulInteger", 10, kNoEnd, 2, 4, 1, importMatMulInteger},
      {"", "QLinearConv", 10, kNoEnd, 8, 9, 1, importQLinearConv},
      {"", "QLinearMatMul", 10, kNoEnd, 8, 8, 1, importQLinearMatMul},
  };
  return entries;
}
