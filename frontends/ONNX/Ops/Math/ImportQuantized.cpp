// Imports conversions between floats and quantized numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Math/Quantization.h"

#include "compiler/Dialect/MPC/Facts/Dequantized.h"
#include "frontends/ONNX/Ops/NN/Sampling.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Scales and zero points
//===----------------------------------------------------------------------===//

Value mpc::onnx_frontend::toSingle(NodeImporter &node, Value value) {
  return castTo(node, value, node.attributes().getF32Type());
}

Value mpc::onnx_frontend::toWhole(NodeImporter &node, Value value) {
  return castTo(node, value, node.attributes().getI64Type());
}

Value mpc::onnx_frontend::markDequantized(Value value) {
  if (auto constant = value ? value.getDefiningOp<ConstantOp>() : ConstantOp())
    constant->setAttr(kDequantizedAttr, UnitAttr::get(value.getContext()));
  return value;
}

// The smallest and the largest number of a type.
static std::pair<int64_t, int64_t> getBounds(Type type) {
  auto integer = cast<IntegerType>(type);
  int64_t count = int64_t(1) << integer.getWidth();
  int64_t low = integer.isUnsigned() ? 0 : -count / 2;
  return {low, low + count - 1};
}

Value mpc::onnx_frontend::saturate(NodeImporter &node, Value quotient,
                                   Value zeroPoint, Type type) {
  constexpr double kFar = int64_t(1) << 40; // beyond all types, exact in f64
  auto [low, high] = getBounds(type);
  Value rounded =
      roundPlace(node, clampPlace(node, toPlace(node, quotient), -kFar, kFar));
  if (zeroPoint)
    rounded = node.emit<AddOp>({rounded, toWhole(node, zeroPoint)});
  Value raised =
      node.emit<MaximumOp>({rounded, integerConstant(node, {}, low)});
  Value clamped =
      node.emit<MinimumOp>({raised, integerConstant(node, {}, high)});
  return castTo(node, clamped, type);
}

static bool isOne(ArrayRef<int64_t> shape) {
  return shape.size() <= 1 && ShapedType::getNumElements(shape) == 1;
}

FailureOr<Value> mpc::onnx_frontend::spreadScale(NodeImporter &node,
                                                 unsigned input,
                                                 ArrayRef<int64_t> shape,
                                                 int64_t axis, int64_t block) {
  SmallVector<int64_t> own(node.operandShape(input));
  Value value = node.operand(input);
  if (block == 0 && isOne(own))
    return node.reshape(value, {});
  std::string name = node.getInputName(input).str();
  int64_t rank = shape.size();
  if (rank == 0)
    return node.invalid("expected one number" + node.found({input}));
  // For a vector, any value of 'axis' means the only axis.
  FailureOr<int64_t> along = 0;
  if (rank > 1)
    along = node.normalizeAxis(axis, rank);
  if (failed(along))
    return failure();
  SmallVector<int64_t> spread(rank, 1);
  if (block == 0) {
    spread[*along] = shape[*along];
    if (own != ArrayRef<int64_t>(shape[*along]))
      return node.invalid("expected '" + name + "' to hold one number, or " +
                          Twine(shape[*along]) +
                          " numbers, one for each index of axis " +
                          Twine(*along) + node.found({input}));
    return node.reshape(value, spread);
  }
  // Repeat each number `block` times; the last block may be shorter.
  spread.assign(shape.begin(), shape.end());
  spread[*along] = llvm::divideCeil(shape[*along], block);
  if (own != spread)
    return node.invalid("expected '" + name +
                        "' to have the shape of the input, except on "
                        "axis " +
                        Twine(*along) + ", where each block of " +
                        Twine(block) + " elements has one number: " +
                        printShape(spread) + node.found({input}));
  SmallVector<int64_t> copies(spread), whole(spread), origin(rank, 0);
  spread.insert(spread.begin() + *along + 1, 1);
  copies.insert(copies.begin() + *along + 1, block);
  whole[*along] *= block;
  Value repeated =
      node.reshape(expand(node, node.reshape(value, spread), copies), whole);
  return slice(node, repeated, origin, shape);
}

namespace {
/// The scale and zero point (null if none) of a node, reshaped to broadcast to
/// input 0.
struct Quantization {
  Value scale, zeroPoint;
};
} // namespace

// Returns the opset that decides which attributes the node may have. A node of
// com.microsoft counts as opset 21: ONNX Runtime writes such nodes for 16 bits
// in files of older opsets.
static int64_t getQuantizationOpset(NodeImporter &node) {
  constexpr int64_t kMicrosoft = 21;
  return node.getNode().domain().empty() ? node.getOpset() : kMicrosoft;
}

static FailureOr<Quantization> readQuantization(NodeImporter &node) {
  SmallVector<int64_t> shape(node.operandShape(0));
  const int64_t opset = getQuantizationOpset(node);
  int64_t axis = opset >= 13 ? node.integer("axis", 1) : 1;
  int64_t block = opset >= 21 ? node.integer("block_size", 0) : 0;
  constexpr int64_t kMost = int64_t(1) << 30;
  if (block < 0 || block > kMost)
    return node.invalid("expected attribute 'block_size' from 0 to " +
                        Twine(kMost) + ", found " + Twine(block));
  if (!isa<FloatType>(node.operandType(1).getElementType()))
    return node.unsupported("expected floats as scale" + node.found({1}));
  auto scale = spreadScale(node, 1, shape, axis, block);
  if (failed(scale))
    return failure();
  // Scale and zero point need equal shapes. ONNX Runtime also writes a scale of
  // [1] with a zero point of rank 0.
  if (!node.hasInput(2))
    return Quantization{*scale, Value()};
  bool areOne = isOne(node.operandShape(1)) && isOne(node.operandShape(2));
  if (node.operandShape(2) != node.operandShape(1) && !areOne)
    return node.invalid("expected scale and zero point of equal shapes" +
                        node.found({1, 2}));
  auto zeroPoint = spreadScale(node, 2, shape, axis, block);
  if (failed(zeroPoint))
    return failure();
  return Quantization{*scale, *zeroPoint};
}

// Reports an error in training: rounding has no slope, so everything before the
// node would silently stay untrained.
static LogicalResult refuseTraining(NodeImporter &node) {
  if (node.getMode() != ImportMode::Training)
    return success();
  return node.unsupported(
      "has no gradient; train the model before it is quantized, or end it "
      "before this node");
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

bool mpc::onnx_frontend::isQuantized(Type type, unsigned mostBits) {
  auto integer = dyn_cast<IntegerType>(type);
  return integer && integer.getWidth() >= 8 && integer.getWidth() <= mostBits;
}

// Reads the element type of the result: that of the zero point or attribute
// 'output_dtype', which must agree, or else uint8.
static FailureOr<Type> readQuantizedType(NodeImporter &node) {
  Type byDefault =
      IntegerType::get(node.getContext(), 8, IntegerType::Unsigned);
  if (node.hasInput(2))
    byDefault = node.operandType(2).getElementType();
  FailureOr<Type> type = byDefault;
  if (getQuantizationOpset(node) >= 21)
    type = node.elementType("output_dtype", byDefault);
  if (failed(type))
    return failure();
  if (node.hasInput(2) && *type != byDefault)
    return node.invalid("expected attribute 'output_dtype' to be the type of "
                        "the zero point, found " +
                        printElementType(*type) + " and " +
                        printElementType(byDefault));
  if (!isQuantized(*type, 16))
    return node.unsupported(
        "expected a result of 8-bit or 16-bit integers, found " +
        printElementType(*type));
  return *type;
}

// True if the node quantizes floats in training. The integers have no gradient,
// so only a DequantizeLinear may read them: mpc imports both nodes as one op
// with a gradient.
static bool dropsGradient(NodeImporter &node) {
  return node.getMode() == ImportMode::Training &&
         isa<FloatType>(node.operandType(0).getElementType());
}

static LogicalResult importQuantizeLinear(NodeImporter &node) {
  FailureOr<Type> type = readQuantizedType(node);
  FailureOr<Quantization> quantization = readQuantization(node);
  if (failed(type) || failed(quantization))
    return failure();
  if (getQuantizationOpset(node) >= 19)
    (void)node.integer("saturate", 1); // for 8-bit floats only
  // x / scale has the type of the scale, or of attribute 'precision'.
  FailureOr<Type> precision = node.operandType(1).getElementType();
  if (getQuantizationOpset(node) >= 23)
    precision = node.elementType("precision", *precision);
  if (failed(precision))
    return failure();
  if (!isa<FloatType>(*precision))
    return node.invalid(
        "expected attribute 'precision' to be a float type, found " +
        printElementType(*precision));
  Value quotient = node.emit<DivOp>(
      {toSingle(node, node.operand(0)), toSingle(node, quantization->scale)});
  Value integers = saturate(node, castTo(node, quotient, *precision),
                            quantization->zeroPoint, *type);
  return dropsGradient(node) ? node.defineSaved(0, integers, kDequantizeLinear)
                             : node.define(0, integers);
}

//===----------------------------------------------------------------------===//
// Fake quantisation
//===----------------------------------------------------------------------===//

namespace {
/// The QuantizeLinear whose integers a DequantizeLinear reads, and the range of
/// these integers. Clips between the two nodes may narrow the range: PyTorch
/// writes 7 bits as 8 bits and a Clip.
struct Quantizer {
  const proto::NodeProto *node;
  int64_t low, high;
};
} // namespace

// Reads a bound of an integer Clip: `byDefault` if absent, nullopt if unknown.
static std::optional<int64_t> readBound(FunctionImporter &function,
                                        const proto::NodeProto &clip, int input,
                                        int64_t byDefault) {
  if (input >= clip.input_size() || clip.input(input).empty())
    return byDefault;
  std::optional<HostTensor> bound = function.lookup(clip.input(input)).constant;
  if (!bound || bound->isFloat() || bound->getNumElements() != 1)
    return std::nullopt;
  return bound->getInteger(0);
}

static std::optional<Quantizer> findQuantizer(NodeImporter &node) {
  FunctionImporter &function = node.getFunction();
  auto [low, high] = getBounds(node.operandType(0).getElementType());
  const proto::NodeProto *producer =
      function.getGraph().getProducer(node.getInputName(0));
  // Walk back from the last Clip to the QuantizeLinear, and intersect the
  // ranges.
  while (producer && producer->op_type() == "Clip" && producer->input_size()) {
    auto least = readBound(function, *producer, 1, low);
    auto most = readBound(function, *producer, 2, high);
    if (!least || !most || std::max(low, *least) >= std::min(high, *most))
      return std::nullopt;
    low = std::max(low, *least);
    high = std::min(high, *most);
    producer = function.getGraph().getProducer(producer->input(0));
  }
  if (!producer || producer->op_type() != "QuantizeLinear")
    return std::nullopt;
  return Quantizer{producer, low, high};
}

// True if both nodes have the same input `index`: by name, or by equal elements
// that are not trained. An absent zero point equals zeros.
static bool haveSameInput(NodeImporter &node, NodeImporter &other,
                          unsigned index) {
  if (node.hasInput(index) && other.hasInput(index) &&
      node.getInputName(index) == other.getInputName(index))
    return true;
  std::optional<HostTensor> mine = node.constant(index),
                            theirs = other.constant(index);
  auto isZero = [](const HostTensor &tensor) {
    return llvm::all_of(tensor.data, [](char byte) { return byte == 0; });
  };
  if (!node.hasInput(index) || !other.hasInput(index))
    return (mine ? isZero(*mine) : !node.hasInput(index)) &&
           (theirs ? isZero(*theirs) : !other.hasInput(index));
  return mine && theirs && !node.isState(index) && !other.isState(index) &&
         mine->type == theirs->type && mine->data == theirs->data;
}

// True if `node`, a DequantizeLinear, multiplies by the scales by which
// `quantizer` divides.
static bool takesBack(NodeImporter &node, NodeImporter &quantizer) {
  auto hasSame = [&](StringRef attribute, int64_t byDefault) {
    return node.integer(attribute, byDefault) ==
           quantizer.integer(attribute, byDefault);
  };
  return haveSameInput(node, quantizer, 1) &&
         haveSameInput(node, quantizer, 2) &&
         (isOne(node.operandShape(1)) ||
          (hasSame("axis", 1) && hasSame("block_size", 0)));
}

// Imports a DequantizeLinear and the QuantizeLinear of floats before it as one
// op, whose gradient passes straight through the rounding. Null if `node` does
// not undo a QuantizeLinear. Also null outside training if the quotients are
// not f32, the type in which the op computes.
static Value importFakeQuantization(NodeImporter &node,
                                    const Quantization &quantization) {
  std::optional<Quantizer> found = findQuantizer(node);
  if (!found)
    return {};
  NodeImporter quantizer(node.getFunction(), *found->node);
  if (!isa<FloatType>(quantizer.operandType(0).getElementType()) ||
      !takesBack(node, quantizer))
    return {};
  Type single = node.attributes().getF32Type();
  constexpr int64_t kAsScale = proto::TensorProto::UNDEFINED,
                    kSingle = proto::TensorProto::FLOAT;
  int64_t precision = quantizer.integer("precision", kAsScale);
  bool isSingle =
      precision == kSingle ||
      (precision == kAsScale && node.operandType(1).getElementType() == single);
  if (!isSingle && !dropsGradient(quantizer))
    return {};
  Value zeroPoint = quantization.zeroPoint
                        ? castTo(node, quantization.zeroPoint, single)
                        : numberConstant(node, 0, single);
  return node.emit<FakeQuantizeOp>(
      {toSingle(node, quantizer.operand(0)), toSingle(node, quantization.scale),
       zeroPoint},
      {node.attribute("low", found->low), node.attribute("high", found->high)});
}

static LogicalResult importDequantizeLinear(NodeImporter &node) {
  Type type = node.operandType(0).getElementType();
  if (!isQuantized(type, 32))
    return node.unsupported("expected integers of 8 to 32 bits" +
                            node.found({0}));
  FailureOr<Quantization> quantization = readQuantization(node);
  if (failed(quantization))
    return failure();
  // The result has the scale's type, or that of attribute 'output_dtype'.
  FailureOr<Type> result = node.operandType(1).getElementType();
  if (getQuantizationOpset(node) >= 23)
    result = node.elementType("output_dtype", *result);
  if (failed(result))
    return failure();
  if (!isa<FloatType>(*result))
    return node.invalid(
        "expected attribute 'output_dtype' to be a float type, found " +
        printElementType(*result));
  if (Value fake = importFakeQuantization(node, *quantization))
    return node.define(0, castTo(node, fake, *result));
  if (node.hasFailed())
    return failure();
  if (!node.getReader(0).empty())
    return node.unsupported(
        "has no gradient: expected the scale and zero point of the "
        "QuantizeLinear whose integers it reads, and between the two at most "
        "Clips that leave several integers; train the model before it is "
        "quantized, or end it before these nodes");
  // The result is (x - zero point) * scale. The difference is computed in
  // integers, without rounding.
  Value x = node.operand(0);
  if (quantization->zeroPoint) {
    if (elementTypeOf(quantization->zeroPoint) != type)
      return node.invalid(
          "expected the zero point to have the type of the input" +
          node.found({0, 2}));
    x = node.emit<SubOp>(
        {toWhole(node, x), toWhole(node, quantization->zeroPoint)});
  }
  // A scale is state, so only the numbers fold.
  Value scaled = node.emit<MulOp>({markDequantized(toSingle(node, x)),
                                   toSingle(node, quantization->scale)});
  return node.define(0, markDequantized(castTo(node, scaled, *result)));
}

// Imports DynamicQuantizeLinear: scale and zero point follow from the range of
// the elements, extended to contain 0.
static LogicalResult importDynamicQuantizeLinear(NodeImporter &node) {
  if (failed(refuseTraining(node)))
    return failure();
  auto type = node.operandType(0);
  if (!type.getElementType().isF32() || type.getNumElements() == 0)
    return node.invalid("expected a float32 input with elements" +
                        node.found({0}));
  Value x = node.operand(0);
  Value zero = numberConstant(node, 0, type.getElementType());
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  auto highest = [&](Value of) {
    Value most = axes.empty() ? of : reduce<ReduceMaxOp>(node, of, axes, false);
    return node.emit<MaximumOp>({most, zero});
  };
  Value high = highest(x), belowZero = highest(node.emit<NegOp>({x}));
  Value range = node.emit<AddOp>({high, belowZero});
  Value step = node.emit<DivOp>(
      {range, numberConstant(node, 255, type.getElementType())});
  // If all elements are 0, any scale but 0 will do.
  Value scale = node.emit<SelectOp>(
      {node.emit<EqualOp>({step, zero}),
       numberConstant(node, 1, type.getElementType()), step});
  Type byte = IntegerType::get(node.getContext(), 8, IntegerType::Unsigned);
  Value zeroPoint =
      saturate(node, node.emit<DivOp>({belowZero, scale}), Value(), byte);
  Value quantized =
      saturate(node, node.emit<DivOp>({x, scale}), zeroPoint, byte);
  if (failed(node.define(0, quantized)) || failed(node.define(1, scale)))
    return failure();
  return node.define(2, zeroPoint);
}

ArrayRef<OpEntry> mpc::onnx_frontend::getQuantizedOps() {
  static const OpEntry entries[] = {
      {"", "DequantizeLinear", 10, kNoEnd, 2, 3, 1, importDequantizeLinear},
      {"", "DynamicQuantizeLinear", 11, kNoEnd, 1, 1, 3,
       importDynamicQuantizeLinear},
      {"com.microsoft", "DequantizeLinear", 1, kNoEnd, 2, 3, 1,
       importDequantizeLinear},
      {"com.microsoft", "MatMulNBits", 1, kNoEnd, 3, 6, 1, importMatMulNBits},
      {"com.microsoft", "QuantizeLinear", 1, kNoEnd, 2, 3, 1,
       importQuantizeLinear},
      {"", "QuantizeLinear", 10, kNoEnd, 2, 3, 1, importQuantizeLinear},
  };
  return entries;
}
