// Imports Pow and Sqrt, and recognizes the root of a distance.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Repair/DroppedAbsolutes.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// Returns the exponent of Pow, in the element type of the base. A known
// exponent becomes a constant of that type: later stages turn an exponent of 2
// into x * x, but do not look through a cast.
static Value importExponent(NodeImporter &node) {
  Value exponent = node.operand(1);
  Type element = node.operandType(0).getElementType();
  auto type = NodeImporter::typeOf(exponent);
  if (type.getElementType() == element)
    return exponent;
  type = type.clone(element);
  std::optional<HostTensor> known = node.constant(1);
  if (known && !node.isState(1) && known->getNumElements() == 1 &&
      isa<FloatType>(element)) {
    Attribute value =
        node.attributes().getFloatAttr(element, known->getDouble(0));
    auto constant = node.create<ConstantOp>(
        {}, {node.attribute("value", DenseElementsAttr::get(type, value))},
        type);
    return constant ? constant.getOutput() : Value();
  }
  auto cast = node.create<CastOp>({exponent}, {}, type);
  return cast ? cast.getOutput() : Value();
}

// Computes an integer to the power of a float: in float64, truncated, as ONNX
// Runtime does. On GPUs the last place of a float64 power may be wrong: 3 to
// the power of 15.0 gave 14348906.99999996, truncated to 14348906. So a whole
// exponent uses the integer power, up to 2^53, below which float64 holds every
// integer.
static Value importFloatPower(NodeImporter &node, Value base, Value exponent) {
  constexpr double kMostExact = 0x1p53;
  Type element = NodeImporter::typeOf(base).getElementType();
  Type wide = node.attributes().getF64Type();
  Type whole = node.attributes().getI64Type();
  Value wideExponent = castTo(node, exponent, wide);
  Value wholeExponent = castTo(node, wideExponent, whole);
  Value power = node.emit<PowOp>({castTo(node, base, wide), wideExponent});
  Value wholePower =
      node.emit<PowOp>({castTo(node, base, whole), wholeExponent});
  // Take the integer power if the exponent is whole and the power is at most
  // 2^53. NaN fails both tests.
  Value isWhole =
      node.emit<EqualOp>({castTo(node, wholeExponent, wide), wideExponent});
  Value isExact = node.emit<LessOrEqualOp>(
      {node.emit<AbsOp>({power}), numberConstant(node, kMostExact, wide)});
  Value isBoth = node.emit<AndOp>({isWhole, isExact});
  return node.emit<SelectOp>({isBoth, castTo(node, wholePower, element),
                              castTo(node, power, element)});
}

// Computes an integer to the power of a number of another type. An exponent of
// another integer type is computed in int64, a float by importFloatPower. The
// result has the base's type.
static LogicalResult importIntegerPow(NodeImporter &node) {
  Value base = node.operand(0), exponent = node.operand(1);
  Type element = node.operandType(0).getElementType();
  Type other = node.operandType(1).getElementType();
  if (isa<FloatType>(other))
    return node.define(0, importFloatPower(node, base, exponent));
  Type common =
      other == element ? element : Type(node.attributes().getI64Type());
  Value power = node.emit<PowOp>(
      {castTo(node, base, common), castTo(node, exponent, common)});
  return node.define(0, power ? castTo(node, power, element) : Value());
}

// True if Pow(value, exponent) is the root of a distance, in the form that
// PyTorch's older exporter writes for torch.cdist of up to 25 points. The base
// is a sum of squares, raised to 1 / (2 + eps), or a sum of other powers of
// absolute values.
static bool isRootOfDistance(Value value, Value exponent) {
  std::optional<double> root = getConstantNumber(exponent);
  auto sum = value.getDefiningOp<ReduceSumOp>();
  if (!root || !sum)
    return false;
  auto power = sum.getInput().getDefiningOp<PowOp>();
  std::optional<double> number =
      power ? getConstantNumber(power.getRhs()) : std::nullopt;
  const bool isVector = shapeOf(exponent).size() == 1;
  return number && isRootOfDistance(*number, *root, isVector);
}

// Returns x if `value` is max(x, 0), otherwise null. PyTorch's older exporter
// writes a Max, the newer exporter a Clip.
static Value findBoundedByZero(Value value) {
  if (auto clip = value.getDefiningOp<ClipOp>())
    if (clip.getMin() && clip.getMin()->isZero() && !clip.getMax())
      return clip.getInput();
  auto maximum = value.getDefiningOp<MaximumOp>();
  return maximum && getConstantNumber(maximum.getRhs()) == 0.0
             ? maximum.getLhs()
             : Value();
}

// True if `value` holds squared distances in the form that PyTorch's exporters
// write for more than 25 points: max(0, [-2 a, |a|^2, 1] [b, 1, |b|^2]^T). Each
// point a or b is extended by two numbers with a concat.
static bool areSquaredDistances(Value value) {
  Value bounded = findBoundedByZero(value);
  auto product = bounded ? bounded.getDefiningOp<MatMulOp>() : MatMulOp();
  auto points =
      product ? product.getLhs().getDefiningOp<ConcatOp>() : ConcatOp();
  auto isNumber = [&](Value part) {
    return shapeOf(part)[points.getAxis()] == 1;
  };
  return points && points.getInputs().size() == 3 &&
         llvm::all_of(points.getInputs().drop_front(), isNumber);
}

// Builds the root of squared distances. At a distance of 0, such as that of a
// point from itself, the gradient is 0 as in PyTorch. The gradient of a plain
// root would be infinite.
static Value buildDistance(NodeImporter &node, Value squares,
                           llvm::function_ref<Value(Value)> buildRoot) {
  Type element = elementTypeOf(squares);
  Value zero = numberConstant(node, 0.0, element);
  Value isZero = node.emit<EqualOp>({squares, zero});
  Value steep = node.emit<SelectOp>(
      {isZero, numberConstant(node, 1.0, element), squares});
  return node.emit<SelectOp>({isZero, zero, buildRoot(steep)});
}

static LogicalResult importSqrt(NodeImporter &node) {
  Value x = node.operand(0);
  auto root = [&](Value value) { return node.emit<SqrtOp>({value}); };
  bool isDistance = x && areSquaredDistances(x);
  return node.define(0, isDistance ? buildDistance(node, x, root) : root(x));
}

// Imports Pow. Base and exponent may have different types, integers included.
static LogicalResult importPow(NodeImporter &node) {
  if (node.operandType(0).getElementType().isInteger())
    return importIntegerPow(node);
  Value base = node.operand(0), exponent = importExponent(node);
  auto power = [&](Value value) { return node.emit<PowOp>({value, exponent}); };
  bool isDistance = exponent && isRootOfDistance(base, exponent);
  return node.define(0, isDistance ? buildDistance(node, base, power)
                                   : power(base));
}

static const OpEntry kPowerOps[] = {
    // Domain, name, first and last opset, least and most inputs, outputs.
    {"", "Pow", 7, kNoEnd, 2, 2, 1, importPow},
    {"", "Sqrt", 6, kNoEnd, 1, 1, 1, importSqrt},
};

ArrayRef<OpEntry> mpc::onnx_frontend::getPowerOps() { return kPowerOps; }
