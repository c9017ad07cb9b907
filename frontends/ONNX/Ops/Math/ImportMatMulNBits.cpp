// Imports com.microsoft's MatMulNBits, the product with a weight of 2, 4 or 8
// bits. The packed weight stays a constant of bytes, and is dequantized where
// the model runs, so the gradient reaches the other operand only.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Math/Quantization.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// The sizes of a weight [rows, columns] in blocks along its columns.
struct BlockSizes {
  int64_t rows, columns, bits, block;

  int64_t countBlocks() const { return llvm::divideCeil(columns, block); }
  int64_t countInByte() const { return 8 / bits; }
};
} // namespace

static FailureOr<BlockSizes> readBlockSizes(NodeImporter &node) {
  BlockSizes sizes{node.integer("N", 0), node.integer("K", 0),
                   node.integer("bits", 4), node.integer("block_size", 0)};
  // A hint for the inner type of ONNX Runtime's kernels.
  node.ignore("accuracy_level");
  constexpr int64_t kMost = int64_t(1) << 30;
  if (sizes.bits != 2 && sizes.bits != 4 && sizes.bits != 8)
    return node.unsupported("expected 2, 4 or 8 bits, found " +
                            Twine(sizes.bits));
  for (int64_t size : {sizes.rows, sizes.columns, sizes.block})
    if (size < 1 || size > kMost)
      return node.invalid("expected attributes 'N', 'K' and 'block_size' from "
                          "1 to " +
                          Twine(kMost) + ", found " + Twine(size));
  if (sizes.block % sizes.countInByte() != 0)
    return node.invalid("expected blocks of whole bytes, found 'block_size' " +
                        Twine(sizes.block));
  if (node.hasInput(4))
    return node.unsupported("expected columns in order, found a 'g_idx'");
  return sizes;
}

// Unpacks bytes of shape [..., n] to numbers of shape [..., n * 8 / bits]. The
// lowest bits of a byte hold the first number.
static Value unpackBytes(NodeImporter &node, Value bytes,
                         const BlockSizes &sizes) {
  if (!bytes || sizes.countInByte() == 1)
    return bytes;
  Type type = NodeImporter::typeOf(bytes).getElementType();
  SmallVector<int64_t> shape(NodeImporter::shapeOf(bytes)), single(shape);
  single.push_back(1);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < sizes.countInByte(); ++i) {
    double shift = static_cast<double>(i * sizes.bits);
    double mask = static_cast<double>((1 << sizes.bits) - 1);
    Value shifted =
        node.emit<ShiftRightOp>({bytes, numberConstant(node, shift, type)});
    Value part = node.emit<AndOp>({shifted, numberConstant(node, mask, type)});
    parts.push_back(part ? node.reshape(part, single) : Value());
  }
  if (llvm::is_contained(parts, Value()))
    return {};
  shape.back() *= sizes.countInByte();
  Value joined =
      concatenate(node, parts, static_cast<int64_t>(single.size()) - 1);
  return joined ? node.reshape(joined, shape) : Value();
}

// Returns the zero points, which broadcast to [rows, blocks, block], as f32. By
// default, half of the numbers are negative.
static FailureOr<Value> readZeroPoints(NodeImporter &node,
                                       const BlockSizes &sizes) {
  const int64_t rows = sizes.rows, blocks = sizes.countBlocks();
  if (!node.hasInput(3))
    return numberConstant(node, static_cast<double>(1 << (sizes.bits - 1)),
                          node.attributes().getF32Type());
  auto type = node.operandType(3);
  const bool isFloat = isa<FloatType>(type.getElementType());
  const int64_t count =
      isFloat ? blocks : llvm::divideCeil(blocks, sizes.countInByte());
  if (type.getNumElements() != rows * count ||
      (!isFloat && !type.getElementType().isUnsignedInteger(8)))
    return node.invalid("expected zero points of the blocks, " +
                        Twine(rows * count) + (isFloat ? "" : " packed") +
                        " elements" + node.found({3}));
  Value zeros = node.reshape(node.operand(3), {rows, count});
  if (!isFloat)
    zeros = unpackBytes(node, zeros, sizes);
  if (!zeros)
    return failure();
  zeros = slice(node, zeros, {0, 0}, {rows, blocks});
  return toSingle(node, node.reshape(zeros, {rows, blocks, 1}));
}

LogicalResult mpc::onnx_frontend::importMatMulNBits(NodeImporter &node) {
  FailureOr<BlockSizes> sizes = readBlockSizes(node);
  if (failed(sizes))
    return failure();
  const int64_t rows = sizes->rows, columns = sizes->columns;
  const int64_t blocks = sizes->countBlocks();
  auto data = node.operandType(0), packed = node.operandType(1);
  if (!isa<FloatType>(data.getElementType()) || data.getRank() < 2 ||
      data.getShape().back() != columns)
    return node.invalid("expected floats of rank 2 and more with " +
                        Twine(columns) + " columns" + node.found({0}));
  const int64_t bytes = sizes->block / sizes->countInByte();
  if (!packed.getElementType().isUnsignedInteger(8) ||
      packed.getShape() != ArrayRef<int64_t>{rows, blocks, bytes})
    return node.invalid("expected a weight of uint8 [" + Twine(rows) + "," +
                        Twine(blocks) + "," + Twine(bytes) + "]" +
                        node.found({1}));
  if (node.operandType(2).getNumElements() != rows * blocks)
    return node.invalid("expected " + Twine(rows * blocks) +
                        " scales, one of each block" + node.found({2}));
  if (node.hasInput(5) &&
      node.operandType(5).getShape() != ArrayRef<int64_t>{rows})
    return node.invalid("expected a bias [" + Twine(rows) + "]" +
                        node.found({5}));
  FailureOr<Value> zeroPoints = readZeroPoints(node, *sizes);
  if (failed(zeroPoints))
    return failure();
  Value numbers = unpackBytes(node, node.operand(1), *sizes);
  if (!numbers)
    return failure();
  Value scales = node.reshape(node.operand(2), {rows, blocks, 1});
  Value centered = node.emit<SubOp>({toSingle(node, numbers), *zeroPoints});
  Value weight =
      node.emit<MulOp>({markDequantized(centered), toSingle(node, scales)});
  if (!weight)
    return failure();
  weight = node.reshape(weight, {rows, blocks * sizes->block});
  weight = slice(node, weight, {0, 0}, {rows, columns});
  weight = markDequantized(castTo(node, weight, data.getElementType()));
  Value product = node.emit<MatMulOp>({node.operand(0), weight},
                                      {node.attribute("transB", true)});
  if (node.hasInput(5))
    product = node.emit<AddOp>({product, node.operand(5)});
  return node.define(0, product);
}
