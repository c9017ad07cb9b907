// Imports elementwise ops: activations, arithmetic, Clip, Cast.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Facts/Clamps.h"
#include "compiler/Dialect/MPC/Formulas.h"
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Ops/Math/ClampShares.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

template <typename OpT>
static LogicalResult importUnary(NodeImporter &node) {
  return node.define(0, node.emit<OpT>({node.operand(0)}));
}

// ONNX requires equal element types; mpc's ops would promote silently.
static LogicalResult checkSameElementType(NodeImporter &node) {
  Type first = node.operandType(0).getElementType();
  for (unsigned i = 1; i < node.getNumInputs(); ++i)
    if (node.hasInput(i) && node.operandType(i).getElementType() != first)
      return node.refuseTypes(first, node.operandType(i).getElementType());
  return success();
}

template <typename OpT>
static LogicalResult importBinary(NodeImporter &node) {
  if (failed(checkSameElementType(node)))
    return failure();
  return node.define(0, node.emit<OpT>({node.operand(0), node.operand(1)}));
}

// Imports And, Or, Xor or Not of booleans, or a Bitwise op, such as BitwiseAnd,
// of integers.
template <LogicalResult (*import)(NodeImporter &)>
static LogicalResult importBits(NodeImporter &node) {
  bool isBitwise = node.getOpType().starts_with("Bitwise");
  if (node.operandType(0).getElementType().isInteger(1) == isBitwise)
    return node.invalid(
        (isBitwise ? "expected integers" : "expected booleans") +
        node.found({0}));
  return import(node);
}

static LogicalResult importBitShift(NodeImporter &node) {
  std::string direction = node.string("direction", "");
  if (direction == "LEFT")
    return importBinary<ShiftLeftOp>(node);
  if (direction == "RIGHT")
    return importBinary<ShiftRightOp>(node);
  return node.invalid("expected attribute 'direction' to be 'LEFT' or "
                      "'RIGHT', found '" +
                      direction + "'");
}

// Computes the remainder with the sign of b, as Python's % does: the remainder
// with the sign of a, plus b if the signs differ. A zero remainder r also takes
// the sign of b: 0 + r is +0 and -(0 - r) is -0, for r of +0 and of -0. Both
// expressions keep the gradient of r.
static Value floorMod(NodeImporter &node, Value a, Value b) {
  Value rest = node.emit<ModOp>({a, b}, {node.attribute("fmod", true)});
  if (!rest)
    return {};
  Value zero = numberConstant(node, 0, elementTypeOf(rest));
  auto isNegative = [&](Value x) { return node.emit<LessOp>({x, zero}); };
  Value isBelow = isNegative(b);
  Value differs = node.emit<XorOp>({isNegative(rest), isBelow});
  Value moved =
      node.emit<SelectOp>({differs, node.emit<AddOp>({rest, b}), rest});
  // A remainder of zero takes the sign of b.
  Value below = node.emit<NegOp>({node.emit<SubOp>({zero, rest})});
  Value none =
      node.emit<SelectOp>({isBelow, below, node.emit<AddOp>({rest, zero})});
  Value isNone = node.emit<EqualOp>({rest, zero});
  return node.emit<SelectOp>({isNone, none, moved});
}

static LogicalResult importMod(NodeImporter &node) {
  if (failed(checkSameElementType(node)))
    return failure();
  bool fmod = node.integer("fmod", 0) != 0;
  if (!fmod && isa<FloatType>(node.operandType(0).getElementType())) {
    if (node.getOpset() < 28)
      return node.invalid(
          "expected attribute 'fmod' to be 1 for floats, found 0");
    return node.define(0, floorMod(node, node.operand(0), node.operand(1)));
  }
  return node.define(0, node.emit<ModOp>({node.operand(0), node.operand(1)},
                                         {node.attribute("fmod", fmod)}));
}

static LogicalResult importIsInf(NodeImporter &node) {
  bool negative = node.integer("detect_negative", 1) != 0;
  bool positive = node.integer("detect_positive", 1) != 0;
  return node.define(
      0, node.emit<IsInfOp>({node.operand(0)},
                            {node.attribute("negative", negative),
                             node.attribute("positive", positive)}));
}

// True if input `index` is a step counter of training.
static bool isCounter(NodeImporter &node, unsigned index) {
  VariableOp variable =
      node.getFunction().lookup(node.getInputName(index)).variable;
  return variable && variable.getRole() == Role::Counter;
}

// Imports a comparison. If `isSwapped`, exchanges the operands: Greater(a, b)
// becomes Less(b, a).
template <typename OpT, bool isSwapped>
static LogicalResult importComparison(NodeImporter &node) {
  if (failed(checkSameElementType(node)))
    return failure();
  Value a = node.operand(isSwapped ? 1 : 0),
        b = node.operand(isSwapped ? 0 : 1);
  return node.define(0, node.emit<OpT>({a, b}));
}

// Imports Add. Adding 1 to a step counter becomes an mpc.increment, because a
// skipped step must not count.
static LogicalResult importAdd(NodeImporter &node) {
  for (unsigned index : {0, 1}) {
    auto other = node.constant(1 - index);
    if (!isCounter(node, index) || !other || other->isFloat() ||
        other->getNumElements() != 1 || other->getInteger(0) != 1 ||
        other->type.getRank() > node.operandType(index).getRank())
      continue;
    node.setPhase(Phase::Optimizer);
    auto op = node.create<IncrementOp>({node.operand(index)});
    return op ? node.define(0, op.getOutput()) : failure();
  }
  return importBinary<AddOp>(node);
}

// Aligns `b` with `a` as before opset 7. `b` has the shape of `a` or, with
// attribute 'broadcast', of adjacent axes of `a`: the last ones, or those from
// 'axis' on.
static FailureOr<Value> alignRight(NodeImporter &node, Value a, Value b) {
  bool broadcast = node.integer("broadcast", 0) != 0;
  SmallVector<int64_t> shape(NodeImporter::shapeOf(b));
  int64_t rank = NodeImporter::shapeOf(a).size(), size = shape.size();
  if (!broadcast && NodeImporter::shapeOf(a) != NodeImporter::shapeOf(b))
    return node.invalid(
        "expected inputs of the same shape without attribute 'broadcast'" +
        node.found({0, 1}));
  if (!node.hasAttribute("axis"))
    return b;
  int64_t axis = node.integer("axis", 0);
  axis = axis < 0 ? axis + rank : axis;
  if (axis < 0 || size > rank || axis > rank - size)
    return node.invalid("attribute 'axis' of " +
                        Twine(node.integer("axis", 0)) + " puts the " +
                        Twine(size) + " axes of the second input outside the " +
                        Twine(rank) + " axes of the first");
  shape.append(rank - size - axis, 1);
  return node.reshape(b, shape);
}

template <typename OpT, bool isSwapped = false>
static LogicalResult importAligned(NodeImporter &node) {
  if (failed(checkSameElementType(node)))
    return failure();
  Value a = node.operand(0);
  FailureOr<Value> b = alignRight(node, a, node.operand(1));
  if (failed(b) || !*b)
    return failure();
  return node.define(0, isSwapped ? node.emit<OpT>({*b, a})
                                  : node.emit<OpT>({a, *b}));
}

// Imports Sum, Max and Min: combines any number of inputs from the left.
template <typename OpT>
static LogicalResult importVariadic(NodeImporter &node) {
  if (failed(checkSameElementType(node)))
    return failure();
  Value result = node.operand(0);
  for (unsigned i = 1; i < node.getNumInputs(); ++i)
    result = node.emit<OpT>({result, node.operand(i)});
  return node.define(0, result);
}

// Imports Max and Min. A Max or Min that PyTorch's exporter wrote for clamp has
// another gradient at the bound.
template <typename OpT>
static LogicalResult importChoice(NodeImporter &node) {
  std::optional<double> share = findShareAtBound(node);
  if (!share)
    return importVariadic<OpT>(node);
  if (failed(checkSameElementType(node)))
    return failure();
  return node.define(0, node.emit<OpT>({node.operand(0), node.operand(1)},
                                       {node.attribute(kClampsAttr, *share)}));
}

// Returns the maximum and minimum of input 0 and its bounds, which are
// operands. Elements equal to a bound receive `share` of the gradient, or half.
static Value buildBounds(NodeImporter &node, std::optional<double> share) {
  SmallVector<NamedAttribute> attributes;
  if (share)
    attributes.push_back(node.attribute(kClampsAttr, *share));
  Value result = node.operand(0);
  auto bound = [&](unsigned i) { return node.reshape(node.operand(i), {}); };
  if (node.hasInput(1))
    result = node.emit<MaximumOp>({result, bound(1)}, attributes);
  if (node.hasInput(2))
    result = node.emit<MinimumOp>({result, bound(2)}, attributes);
  return result;
}

static LogicalResult buildClip(NodeImporter &node, std::optional<double> min,
                               std::optional<double> max) {
  SmallVector<NamedAttribute> attributes;
  if (min)
    attributes.push_back(node.attribute("min", *min));
  if (max)
    attributes.push_back(node.attribute("max", *max));
  if (findShareInClip(node, min, max, /*areKnown=*/true) == 0.0)
    attributes.push_back(node.attribute(kClampsAttr, 0.0));
  if (auto op = node.create<ClipOp>({node.operand(0)}, attributes))
    return node.define(0, op.getOutput());
  return failure();
}

// Imports Clip of opset 6: the bounds are attributes, and an absent bound does
// not clip.
static LogicalResult importClipAttributes(NodeImporter &node) {
  std::optional<double> min, max;
  if (node.hasAttribute("min"))
    min = node.real("min", 0);
  if (node.hasAttribute("max"))
    max = node.real("max", 0);
  return buildClip(node, min, max);
}

// Imports Clip. Integers are bounded by operands: the float attributes of
// mpc.clip cannot hold all integers. So are floats whose bounds are trained or
// depend on data, and floats of a clamp at tensors, which share their gradient
// with the bounds.
static LogicalResult importClip(NodeImporter &node) {
  if (failed(checkSameElementType(node)))
    return failure();
  if (node.operandType(0).getElementType().isInteger())
    return node.defineSaved(0, buildBounds(node, std::nullopt),
                            node.getReader(0));
  std::optional<double> bounds[2];
  bool areKnown = true;
  for (unsigned i : {1, 2}) {
    if (!node.hasInput(i))
      continue;
    std::optional<HostTensor> bound = node.constant(i);
    if (bound && bound->getNumElements() != 1)
      return node.invalid(Twine("expected ") + (i == 1 ? "min" : "max") +
                          " to have one element" + node.found({i}));
    areKnown &= bound && !node.isState(i);
    if (bound)
      bounds[i - 1] = bound->getDouble(0);
  }
  std::optional<double> share =
      findShareInClip(node, bounds[0], bounds[1], areKnown);
  return areKnown && share ? buildClip(node, bounds[0], bounds[1])
                           : node.define(0, buildBounds(node, share));
}

static LogicalResult importCast(NodeImporter &node) {
  node.ignore("saturate"); // matters for 8-bit floats only
  if (node.hasAttribute("round_mode"))
    return node.unsupported("attribute 'round_mode' is not supported");
  FailureOr<Type> element = node.elementType("to", Type());
  if (failed(element))
    return failure();
  if (!*element)
    return node.invalid("attribute 'to' is missing or names no type");
  return node.define(0, castTo(node, node.operand(0), *element));
}

// Imports CastLike, which casts input 0 to the element type of input 1.
static LogicalResult importCastLike(NodeImporter &node) {
  node.ignore("saturate"); // matters for 8-bit floats only
  if (node.hasAttribute("round_mode"))
    return node.unsupported("attribute 'round_mode' is not supported");
  Type element = node.operandType(1).getElementType();
  return node.define(0, castTo(node, node.operand(0), element));
}

// Imports BitCast, which reads the bits of each element as another type of
// equal width. A boolean is one byte, 0 or 1.
static LogicalResult importBitCast(NodeImporter &node) {
  auto read = node.elementType("to", Type());
  if (failed(read))
    return failure();
  Type element = *read;
  if (!element)
    return node.invalid("attribute 'to' is missing or names no type");
  RankedTensorType type = node.operandType(0);
  auto widthOf = [](Type type) {
    return type.isInteger(1) ? 8 : type.getIntOrFloatBitWidth();
  };
  if (widthOf(type.getElementType()) != widthOf(element))
    return node.invalid(
        "expected a type of " + Twine(widthOf(type.getElementType())) +
        " bits in attribute 'to', found one of " + Twine(widthOf(element)));
  Value x = node.operand(0);
  if (type.getElementType() == element)
    return node.define(0, x);
  if (type.getElementType().isInteger(1) || element.isInteger(1))
    return node.define(0, castTo(node, x, element));
  // The bits of a float have no derivative.
  if (x && isa<FloatType>(type.getElementType()) &&
      !x.getDefiningOp<ConstantOp>())
    x = node.emit<StopGradientOp>({x}, {}, type);
  return node.define(0, node.emit<BitCastOp>({x}, {}, type.clone(element)));
}

// Integers use maximum, because mpc.relu takes floats only.
static LogicalResult importRelu(NodeImporter &node) {
  auto type = node.operandType(0);
  if (!type.getElementType().isInteger())
    return importUnary<ReluOp>(node);
  auto scalar = RankedTensorType::get({}, type.getElementType());
  Attribute zero = node.attributes().getZeroAttr(scalar);
  Value bound =
      node.emit<ConstantOp>({}, {node.attribute("value", zero)}, scalar);
  return node.define(0, node.emit<MaximumOp>({node.operand(0), bound}));
}

static LogicalResult importIdentity(NodeImporter &node) {
  // PyTorch's exporter writes x.detach() as an Identity. The node's metadata
  // name the call.
  if (readCall(node.getNode()).target.starts_with(kDetachTarget) &&
      node.hasOutput(0))
    if (Value value = node.operand(0);
        isa<FloatType>(NodeImporter::typeOf(value).getElementType()))
      return node.define(
          0, node.emit<StopGradientOp>({value}, {}, node.operandType(0)));
  // A copy of state becomes an alias, so that both names belong to one
  // variable.
  if (node.isState(0) && node.constant(0) && node.hasOutput(0))
    return node.defineAlias();
  return node.define(0, node.operand(0));
}

// Imports any op in the table Formulas.def. The table names parameters as ONNX
// does.
template <typename OpT>
static LogicalResult importFormula(NodeImporter &node) {
  const formulas::Formula &formula =
      *formulas::findFormula(OpT::getOperationName().drop_front(4));
  SmallVector<NamedAttribute> parameters;
  for (const formulas::Parameter &parameter : {formula.a, formula.b})
    if (!parameter.name.empty() && node.hasAttribute(parameter.name))
      parameters.push_back(node.attribute(
          parameter.name, node.real(parameter.name, parameter.byDefault)));
  return node.define(0, node.emit<OpT>({node.operand(0)}, parameters));
}

// Computes a * sigmoid(alpha * a) * b, where a and b are inputs 0 and 1, of one
// shape.
static LogicalResult importSwiGLU(NodeImporter &node) {
  if (failed(checkSameElementType(node)))
    return failure();
  if (node.operandShape(0) != node.operandShape(1))
    return node.invalid("expected inputs of equal shapes" + node.found({0, 1}));
  Value gate = node.emit<SwishOp>(
      {node.operand(0)}, {node.attribute("alpha", node.real("alpha", 1.0))});
  return node.define(0, node.emit<MulOp>({gate, node.operand(1)}));
}

static LogicalResult importGelu(NodeImporter &node) {
  std::string form = node.string("approximate", "none");
  if (form == "none")
    return importFormula<GeluOp>(node);
  if (form == "tanh")
    return importFormula<GeluTanhOp>(node);
  return node.invalid("expected attribute 'approximate' to be 'none' or "
                      "'tanh', found '" +
                      form + "'");
}

// Imports Shrink of integers: computes in f64 and truncates toward zero, as
// Cast does. f64 does not hold all 64-bit integers, so these are added as
// integers, and 'bias' must be a whole number.
static LogicalResult importIntegerShrink(NodeImporter &node) {
  double bias = node.real("bias", 0), lambd = node.real("lambd", 0.5);
  Value x = node.operand(0);
  Type element = elementTypeOf(x), wide = node.attributes().getF64Type();
  bool isLong = element.getIntOrFloatBitWidth() == 64;
  if (isLong && (bias != std::floor(bias) || !(std::abs(bias) < 0x1p53) ||
                 !(std::abs(lambd) < 0x1p53)))
    return node.unsupported(
        "for 64-bit integers, expected attribute 'bias' to be a whole number "
        "below 2^53 and 'lambd' below 2^53, found " +
        std::to_string(bias) + " and " + std::to_string(lambd));
  Value number = castTo(node, x, wide);
  Value isBelow =
      node.emit<LessOp>({number, numberConstant(node, -lambd, wide)});
  Value isAbove =
      node.emit<LessOp>({numberConstant(node, lambd, wide), number});
  // Add or subtract |bias|, because unsigned types have no -1. For a negative
  // bias, exchange both results.
  Type sum = isLong ? element : wide;
  Value distance = numberConstant(node, std::abs(bias), sum);
  Value from = castTo(node, x, sum);
  Value up = node.emit<AddOp>({from, distance});
  Value down = node.emit<SubOp>({from, distance});
  if (bias < 0)
    std::swap(up, down);
  Value inner =
      node.emit<SelectOp>({isAbove, down, numberConstant(node, 0, sum)});
  return node.define(
      0, castTo(node, node.emit<SelectOp>({isBelow, up, inner}), element));
}

static LogicalResult importShrink(NodeImporter &node) {
  return node.operandType(0).getElementType().isInteger()
             ? importIntegerShrink(node)
             : importFormula<ShrinkOp>(node);
}

// Computes x * sigmoid(alpha * x). The default alpha of QuickGelu is 1.702;
// that of ONNX's Swish is 1.
static LogicalResult importQuickGelu(NodeImporter &node) {
  auto alpha = node.attribute("alpha", node.real("alpha", 1.702));
  auto op = node.create<SwishOp>({node.operand(0)}, {alpha});
  return op ? node.define(0, op.getOutput()) : failure();
}

// Imports a float-list attribute of an ai.onnx.ml node as a constant of the
// operand's type. The list has one number for all features, or one per element
// of the last axis. Reports an error and returns null for any other length.
static Value importFeatureList(NodeImporter &node, StringRef name) {
  using AttributeProto = proto::AttributeProto;
  RankedTensorType operand = node.operandType(0);
  const auto *list = node.find(name, AttributeProto::FLOATS);
  const int64_t count = list ? list->floats_size() : 0;
  const bool fits = operand.getRank() > 0 && count > 0 &&
                    (count == 1 || count == operand.getShape().back());
  if (!fits) {
    (void)node.unsupported(
        "expected attribute '" + name +
        "' to have one number, or one for each feature, found " + Twine(count) +
        " numbers" + node.found({0}));
    return {};
  }
  llvm::SmallVector<Attribute> values;
  for (float value : list->floats())
    values.push_back(
        node.attributes().getFloatAttr(operand.getElementType(), value));
  auto type = RankedTensorType::get({count}, operand.getElementType());
  return node.emit<ConstantOp>(
      {}, {node.attribute("value", DenseElementsAttr::get(type, values))},
      type);
}

// Imports Scaler of ai.onnx.ml, scikit-learn's StandardScaler: (x - offset) *
// scale.
static LogicalResult importScaler(NodeImporter &node) {
  if (!isa<FloatType>(node.operandType(0).getElementType()))
    return node.unsupported("expected an input of floating point" +
                            node.found({0}));
  Value offset = importFeatureList(node, "offset");
  Value scale = importFeatureList(node, "scale");
  if (!offset || !scale)
    return failure();
  Value centred = node.emit<SubOp>({node.operand(0), offset});
  return node.define(0, node.emit<MulOp>({centred, scale}));
}

// Imports com.microsoft's BiasGelu, FastGelu and BiasFastGelu: an activation of
// the sum of input 0 and, if present, input 1.
template <typename OpT>
static LogicalResult importBiasGelu(NodeImporter &node) {
  Value x = node.operand(0);
  if (node.hasInput(1))
    x = node.emit<AddOp>({x, node.operand(1)});
  return node.define(0, node.emit<OpT>({x}));
}

static const OpEntry kElementwiseOps[] = {
    {"", "Abs", 6, kNoEnd, 1, 1, 1, importUnary<AbsOp>},
    {"", "Add", 6, 6, 2, 2, 1, importAligned<AddOp>},
    {"", "Add", 7, kNoEnd, 2, 2, 1, importAdd},
    {"", "And", 6, 6, 2, 2, 1, importBits<importAligned<AndOp>>},
    {"", "And", 7, kNoEnd, 2, 2, 1, importBits<importBinary<AndOp>>},
    {"", "BitCast", 26, kNoEnd, 1, 1, 1, importBitCast},
    {"", "BitShift", 11, kNoEnd, 2, 2, 1, importBitShift},
    {"", "BitwiseAnd", 18, kNoEnd, 2, 2, 1, importBits<importBinary<AndOp>>},
    {"", "BitwiseNot", 18, kNoEnd, 1, 1, 1, importBits<importUnary<NotOp>>},
    {"", "BitwiseOr", 18, kNoEnd, 2, 2, 1, importBits<importBinary<OrOp>>},
    {"", "BitwiseXor", 18, kNoEnd, 2, 2, 1, importBits<importBinary<XorOp>>},
    {"", "Cast", 6, kNoEnd, 1, 1, 1, importCast},
    {"", "CastLike", 15, kNoEnd, 2, 2, 1, importCastLike},
    {"", "Clip", 6, 10, 1, 1, 1, importClipAttributes},
    {"", "Clip", 11, kNoEnd, 1, 3, 1, importClip},
    {"", "Div", 6, 6, 2, 2, 1, importAligned<DivOp>},
    {"", "Div", 7, kNoEnd, 2, 2, 1, importBinary<DivOp>},
    {"", "Equal", 6, 6, 2, 2, 1, importAligned<EqualOp>},
    {"", "Equal", 7, kNoEnd, 2, 2, 1, importComparison<EqualOp, false>},
    {"", "Exp", 6, kNoEnd, 1, 1, 1, importUnary<ExpOp>},
    {"", "Greater", 6, 6, 2, 2, 1, importAligned<LessOp, true>},
    {"", "Greater", 7, kNoEnd, 2, 2, 1, importComparison<LessOp, true>},
    {"", "GreaterOrEqual", 12, kNoEnd, 2, 2, 1,
     importComparison<LessOrEqualOp, true>},
    {"", "Less", 6, 6, 2, 2, 1, importAligned<LessOp>},
    {"", "Less", 7, kNoEnd, 2, 2, 1, importComparison<LessOp, false>},
    {"", "LessOrEqual", 12, kNoEnd, 2, 2, 1,
     importComparison<LessOrEqualOp, false>},
    {"", "IsInf", 10, kNoEnd, 1, 1, 1, importIsInf},
    {"", "IsNaN", 9, kNoEnd, 1, 1, 1, importUnary<IsNaNOp>},
    {"", "Identity", 1, kNoEnd, 1, 1, 1, importIdentity},
    {"", "Log", 6, kNoEnd, 1, 1, 1, importUnary<LogOp>},
    {"", "Max", 6, kNoEnd, 1, kAnyNumber, 1, importChoice<MaximumOp>},
    {"", "Min", 6, kNoEnd, 1, kAnyNumber, 1, importChoice<MinimumOp>},
    {"", "Mod", 10, kNoEnd, 2, 2, 1, importMod},
    {"", "Mul", 6, 6, 2, 2, 1, importAligned<MulOp>},
    {"", "Mul", 7, kNoEnd, 2, 2, 1, importBinary<MulOp>},
    {"", "Neg", 6, kNoEnd, 1, 1, 1, importUnary<NegOp>},
    {"", "Not", 1, kNoEnd, 1, 1, 1, importBits<importUnary<NotOp>>},
    {"", "Or", 6, 6, 2, 2, 1, importBits<importAligned<OrOp>>},
    {"", "Or", 7, kNoEnd, 2, 2, 1, importBits<importBinary<OrOp>>},
    {"", "Pow", 6, 6, 2, 2, 1, importAligned<PowOp>},
    {"", "Reciprocal", 6, kNoEnd, 1, 1, 1, importUnary<ReciprocalOp>},
    {"", "Relu", 6, kNoEnd, 1, 1, 1, importRelu},
    {"", "Sigmoid", 6, kNoEnd, 1, 1, 1, importUnary<SigmoidOp>},
    {"", "Shrink", 9, kNoEnd, 1, 1, 1, importShrink},
    {"", "Sign", 9, kNoEnd, 1, 1, 1, importUnary<SignOp>},
    {"", "Sub", 6, 6, 2, 2, 1, importAligned<SubOp>},
    {"", "Sub", 7, kNoEnd, 2, 2, 1, importBinary<SubOp>},
    {"", "Sum", 6, kNoEnd, 1, kAnyNumber, 1, importVariadic<AddOp>},
    {"", "SwiGLU", 28, kNoEnd, 2, 2, 1, importSwiGLU},
    {"", "Tanh", 6, kNoEnd, 1, 1, 1, importUnary<TanhOp>},
    {"", "Xor", 6, 6, 2, 2, 1, importBits<importAligned<XorOp>>},
    {"", "Xor", 7, kNoEnd, 2, 2, 1, importBits<importBinary<XorOp>>},
    {"", "Gelu", 20, kNoEnd, 1, 1, 1, importGelu},
    {kMicrosoft, "BiasFastGelu", 1, kNoEnd, 2, 2, 1,
     importBiasGelu<GeluTanhOp>},
    {kMicrosoft, "BiasGelu", 1, kNoEnd, 2, 2, 1, importBiasGelu<GeluOp>},
    {kMicrosoft, "FastGelu", 1, kNoEnd, 1, 2, 1, importBiasGelu<GeluTanhOp>},
    {"com.microsoft", "Gelu", 1, kNoEnd, 1, 1, 1, importFormula<GeluOp>},
    {"ai.onnx.ml", "Scaler", 1, kNoEnd, 1, 1, 1, importScaler},
    {"com.microsoft", "QuickGelu", 1, kNoEnd, 1, 1, 1, importQuickGelu},
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  {"", ONNX, SINCE, kNoEnd, 1, 1, 1, importFormula<OP##Op>},
#include "compiler/Dialect/MPC/Formulas.def"
};

ArrayRef<OpEntry> mpc::onnx_frontend::getElementwiseOps() {
  return kElementwiseOps;
}
