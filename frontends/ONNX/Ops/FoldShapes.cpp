// Shape arithmetic at import: what exporters compute from Shape is folded here,
// so that the IR has static shapes.
//
// Integers and booleans are folded, and floats that are constants of the model,
// as far as arithmetic rounds them to the same bits everywhere. What may be
// trained never is.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/FoldElements.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// A mask made from two vectors is the product of their sizes, which is where
// shape arithmetic ends.
static constexpr int64_t kMostResults = 1 << 22;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

HostTensor mpc::onnx_frontend::makeIntegers(Type element,
                                            ArrayRef<int64_t> shape,
                                            ArrayRef<int64_t> values) {
  auto [tensor, data] =
      HostTensor::allocate(RankedTensorType::get(shape, element));
  int64_t width = getElementBytes(element);
  for (auto [i, value] : llvm::enumerate(values))
    std::memcpy(data + i * width, &value, width);
  return tensor;
}

HostTensor mpc::onnx_frontend::makeFloats(Type element, ArrayRef<int64_t> shape,
                                          ArrayRef<double> values) {
  auto [tensor, data] = HostTensor::allocate(
      RankedTensorType::get(shape, Float64Type::get(element.getContext())));
  std::memcpy(data, values.data(), values.size() * sizeof(double));
  return *convertFloats(tensor, element);
}

HostTensor mpc::onnx_frontend::pick(
    const HostTensor &source, ArrayRef<int64_t> shape,
    llvm::function_ref<int64_t(ArrayRef<int64_t>)> positionOf) {
  Type element = source.type.getElementType();
  auto [tensor, data] =
      HostTensor::allocate(RankedTensorType::get(shape, element));
  int64_t width = getElementBytes(element);
  char *to = data;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    to = std::copy_n(source.data.data() + positionOf(index) * width, width, to);
  });
  return tensor;
}

void mpc::onnx_frontend::forEachIndex(
    ArrayRef<int64_t> shape,
    llvm::function_ref<void(ArrayRef<int64_t>)> visit) {
  Integers index(shape.size(), 0);
  for (int64_t i = 0, n = ShapedType::getNumElements(shape); i < n; ++i) {
    visit(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

int64_t mpc::onnx_frontend::getPosition(ArrayRef<int64_t> index,
                                        ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t at = index[index.size() - shape.size() + d];
    position = position * shape[d] + (shape[d] == 1 ? 0 : at);
  }
  return position;
}

LogicalResult mpc::onnx_frontend::checkFoldedSize(NodeImporter &node,
                                                  ArrayRef<int64_t> shape) {
  auto bytes = getCheckedBytes(shape, node.attributes().getI64Type());
  return success(bytes && *bytes <= kMostResults * 8);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

static LogicalResult foldShape(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  int64_t rank = shape.size();
  auto clamp = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  int64_t start = clamp(node.integer("start", 0));
  int64_t end = std::max(start, clamp(node.integer("end", rank)));
  ArrayRef<int64_t> part = shape.slice(start, end - start);
  return node.define(
      0, HostTensor::fromIntegers(node.getContext(),
                                  {static_cast<int64_t>(part.size())}, part));
}

static LogicalResult foldSize(NodeImporter &node) {
  return node.define(0, HostTensor::fromIntegers(node.getContext(), {},
                                                 {ShapedType::getNumElements(
                                                     node.operandShape(0))}));
}

static LogicalResult foldRange(NodeImporter &node) {
  int64_t bounds[3];
  for (unsigned i : {0, 1, 2}) {
    if (node.constant(i)->isFloat())
      return node.unsupported("expected integers as range, found floats");
    auto bound = node.integers(i, "the range");
    if (failed(bound) || bound->size() != 1)
      return failed(bound) ? failure()
                           : node.invalid("expected scalars as range");
    bounds[i] = bound->front();
  }
  auto [start, limit, delta] = std::tie(bounds[0], bounds[1], bounds[2]);
  if (delta == 0)
    return node.invalid("expected a step other than 0");
  Integers values;
  for (int64_t value = start; delta > 0 ? value < limit : value > limit;) {
    values.push_back(value);
    if (static_cast<int64_t>(values.size()) > kMostFoldedElements ||
        llvm::AddOverflow(value, delta, value))
      return node.unsupported("the range is too long");
  }
  return node.define(0, makeIntegers(node.constant(0)->type.getElementType(),
                                     {static_cast<int64_t>(values.size())},
                                     values));
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

// Floats become integers by truncation; old exporters compute shapes in floats.
static LogicalResult truncateFloats(NodeImporter &node, Type element) {
  HostTensor source = *node.constant(0);
  Integers values;
  for (int64_t i = 0; i < source.getNumElements(); ++i) {
    double value = source.getDouble(i);
    // All integers up to here are floats, and none beyond is a shape.
    constexpr double kLargest = int64_t(1) << 53;
    if (!(value >= -kLargest && value <= kLargest))
      return node.invalid("expected an integer, found " +
                          std::to_string(value));
    values.push_back(element.isInteger(1) ? value != 0.0
                                          : static_cast<int64_t>(value));
  }
  return node.define(0, makeIntegers(element, source.getShape(), values));
}

static LogicalResult castTo(NodeImporter &node, Type element) {
  HostTensor source = *node.constant(0);
  if (source.isFloat() && isa<FloatType>(element))
    return node.define(0, *convertFloats(source, element));
  if (source.isFloat())
    return truncateFloats(node, element);
  Integers values = source.getIntegers();
  if (auto type = dyn_cast<FloatType>(element)) {
    // Beyond this an integer is rounded twice, which is the op's to do.
    constexpr int64_t kExact = int64_t(1) << 53;
    SmallVector<double> floats;
    for (int64_t value : values) {
      if (value > kExact || value < -kExact)
        return failure();
      floats.push_back(value);
    }
    return node.define(0, makeFloats(type, source.getShape(), floats));
  }
  if (element.isInteger(1))
    for (int64_t &value : values)
      value = value != 0;
  return node.define(0, makeIntegers(element, source.getShape(), values));
}

static LogicalResult foldCast(NodeImporter &node) {
  node.ignore("saturate");
  auto element = node.getFunction().getModel().getElementType(
      node.integer("to", 0), node.describe() + ": attribute 'to'");
  if (element)
    return castTo(node, *element);
  llvm::consumeError(element.takeError());
  return failure();
}

static LogicalResult foldCastLike(NodeImporter &node) {
  node.ignore("saturate");
  return castTo(node, node.operandType(1).getElementType());
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

// Integer division truncates; nothing for a division by zero or an overflow.
static std::optional<int64_t> divide(int64_t a, int64_t b) {
  return b == 0 || (a == INT64_MIN && b == -1) ? std::nullopt
                                               : std::optional(a / b);
}

// The sign of the divisor, as in Python, unless `fmod` is 1.
static std::optional<int64_t> getRemainder(int64_t a, int64_t b, bool fmod) {
  if (b == 0 || b == -1)
    return b == 0 ? std::nullopt : std::optional<int64_t>(0);
  int64_t rest = a % b;
  return !fmod && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static std::optional<int64_t> evaluate(StringRef op, int64_t a, int64_t b,
                                       bool fmod) {
  int64_t result = 0;
  if (op == "Add" || op == "Sum")
    return llvm::AddOverflow(a, b, result) ? std::nullopt
                                           : std::optional(result);
  if (op == "Sub")
    return llvm::SubOverflow(a, b, result) ? std::nullopt
                                           : std::optional(result);
  if (op == "Mul")
    return llvm::MulOverflow(a, b, result) ? std::nullopt
                                           : std::optional(result);
  if (op == "Mod")
    return getRemainder(a, b, fmod);
  return llvm::StringSwitch<std::optional<int64_t>>(op)
      .Case("Div", divide(a, b))
      .Case("Max", std::max(a, b))
      .Case("Min", std::min(a, b))
      .Case("Equal", a == b)
      .Case("Less", a < b)
      .Case("LessOrEqual", a <= b)
      .Case("Greater", a > b)
      .Case("GreaterOrEqual", a >= b)
      .Case("And", a && b)
      .Case("Or", a || b)
      .Case("Xor", !a != !b)
      .Default(std::nullopt);
}

// Ops of floats whose result, rounded once more to the element type, is that of
// IEEE arithmetic in the type; nothing for others.
static std::optional<double> evaluate(StringRef op, double a, double b) {
  if (op == "Max" || op == "Min")
    return std::isnan(a) || std::isnan(b) ? NAN
           : op == "Max"                  ? std::max(a, b)
                                          : std::min(a, b);
  return llvm::StringSwitch<std::optional<double>>(op)
      .Cases({"Add", "Sum"}, a + b)
      .Case("Sub", a - b)
      .Case("Mul", a * b)
      .Case("Div", a / b)
      .Case("Equal", a == b)
      .Case("Less", a < b)
      .Case("LessOrEqual", a <= b)
      .Case("Greater", a > b)
      .Case("GreaterOrEqual", a >= b)
      .Default(std::nullopt);
}

static bool isComparison(StringRef op) {
  return llvm::StringSwitch<bool>(op)
      .Cases({"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"},
             true)
      .Default(false);
}

// a op b, broadcast together. Nothing, perhaps with a finding, where it cannot
// be had.
static std::optional<HostTensor>
combine(NodeImporter &node, const HostTensor &a, const HostTensor &b) {
  StringRef op = node.getOpType();
  auto shape = broadcastShapes(a.getShape(), b.getShape());
  if (failed(shape) || a.isFloat() != b.isFloat()) {
    (void)node.invalid("the inputs do not broadcast together");
    return std::nullopt;
  }
  if (failed(checkFoldedSize(node, *shape)))
    return std::nullopt;
  bool isFloat = a.isFloat(), isDefined = true;
  bool fmod = op == "Mod" && node.integer("fmod", 0) != 0;
  Integers integers;
  SmallVector<double> floats;
  forEachIndex(*shape, [&](ArrayRef<int64_t> index) {
    int64_t i = getPosition(index, a.getShape());
    int64_t j = getPosition(index, b.getShape());
    if (isFloat) {
      auto value = evaluate(op, a.getDouble(i), b.getDouble(j));
      isDefined &= value.has_value();
      floats.push_back(value.value_or(0));
    } else {
      auto value = evaluate(op, a.getInteger(i), b.getInteger(j), fmod);
      isDefined &= value.has_value();
      integers.push_back(value.value_or(0));
    }
  });
  if (!isDefined) {
    if (!isFloat)
      (void)node.invalid("the result overflows or divides by zero");
    return std::nullopt;
  }
  Type boolean = IntegerType::get(node.getContext(), 1);
  if (isFloat && isComparison(op))
    return makeIntegers(boolean, *shape,
                        Integers(floats.begin(), floats.end()));
  Type element = isComparison(op) ? boolean : a.type.getElementType();
  return isFloat ? makeFloats(element, *shape, floats)
                 : makeIntegers(element, *shape, integers);
}

// Sum, Max and Min have any number of inputs, the others two.
static LogicalResult foldBinary(NodeImporter &node) {
  if (node.getOpset() < 7 && node.hasAttribute("axis"))
    return failure(); // the op knows where the second input is put
  if (node.getOpset() < 7)
    node.ignore("broadcast");
  HostTensor result = *node.constant(0);
  for (unsigned i = 1; i < node.getNumInputs(); ++i) {
    auto next = combine(node, result, *node.constant(i));
    if (!next)
      return failure();
    result = *next;
  }
  return node.define(0, result);
}

static LogicalResult foldUnary(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  StringRef op = node.getOpType();
  Type element = source.type.getElementType();
  if (source.isFloat()) {
    SmallVector<double> values;
    for (int64_t i = 0; i < source.getNumElements(); ++i) {
      double x = source.getDouble(i);
      values.push_back(llvm::StringSwitch<double>(op)
                           .Case("Abs", std::abs(x))
                           .Case("Ceil", std::ceil(x))
                           .Case("Floor", std::floor(x))
                           .Case("Neg", -x)
                           .Case("Reciprocal", 1.0 / x)
                           .Default(std::sqrt(x)));
    }
    return node.define(0, makeFloats(element, source.getShape(), values));
  }
  if (op != "Abs" && op != "Neg" && op != "Not")
    return failure();
  Integers values = source.getIntegers();
  for (int64_t &value : values) {
    if (op == "Not")
      value = !value;
    else if ((op == "Neg" || value < 0) &&
             llvm::SubOverflow(int64_t(0), value, value))
      return node.invalid("the result overflows");
  }
  return node.define(0, makeIntegers(element, source.getShape(), values));
}

static LogicalResult foldWhere(NodeImporter &node) {
  HostTensor condition = *node.constant(0);
  HostTensor onTrue = *node.constant(1), onFalse = *node.constant(2);
  auto shape = broadcastShapes(onTrue.getShape(), onFalse.getShape());
  if (succeeded(shape))
    shape = broadcastShapes(*shape, condition.getShape());
  Type element = onTrue.type.getElementType();
  if (failed(shape) || onFalse.type.getElementType() != element)
    return node.invalid("the inputs do not broadcast together");
  if (condition.isFloat() || failed(checkFoldedSize(node, *shape)))
    return failure();
  auto [tensor, data] =
      HostTensor::allocate(RankedTensorType::get(*shape, element));
  int64_t width = getElementBytes(element);
  char *to = data;
  forEachIndex(*shape, [&](ArrayRef<int64_t> index) {
    const HostTensor &chosen =
        condition.getInteger(getPosition(index, condition.getShape()))
            ? onTrue
            : onFalse;
    int64_t position = getPosition(index, chosen.getShape());
    to = std::copy_n(chosen.data.data() + position * width, width, to);
  });
  return node.define(0, tensor);
}

// Of integers; sums of floats depend on their order.
static LogicalResult foldReduce(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  StringRef op = node.getOpType();
  if (source.isFloat())
    return failure();
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  if (reduction->isIdentity)
    return node.define(0, source);
  Integers kept(source.getShape());
  for (int64_t axis : reduction->axes)
    kept[axis] = 1;
  bool isMaximum = op == "ReduceMax", isMinimum = op == "ReduceMin";
  if ((isMaximum || isMinimum) && source.getNumElements() == 0)
    return node.invalid("there is no largest or smallest of no elements");
  // Reduced to what stands at each index of the result.
  Integers results(ShapedType::getNumElements(kept), op == "ReduceProd" ? 1
                                                     : isMaximum ? INT64_MIN
                                                     : isMinimum ? INT64_MAX
                                                                 : 0);
  StringRef step = isMaximum            ? "Max"
                   : isMinimum          ? "Min"
                   : op == "ReduceProd" ? "Mul"
                                        : "Add";
  bool overflows = false;
  forEachIndex(source.getShape(), [&](ArrayRef<int64_t> index) {
    int64_t &result = results[getPosition(index, kept)];
    auto next = evaluate(
        step, result, source.getInteger(getPosition(index, source.getShape())),
        /*fmod=*/false);
    overflows |= !next;
    result = next.value_or(0);
  });
  if (overflows)
    return node.invalid("the result overflows");
  Integers shape;
  for (auto [i, extent] : llvm::enumerate(kept))
    if (reduction->keepDims ||
        !llvm::is_contained(reduction->axes, static_cast<int64_t>(i)))
      shape.push_back(extent);
  return node.define(
      0, makeIntegers(source.type.getElementType(), shape, results));
}

Folder mpc::onnx_frontend::getArithmeticFolder(StringRef op) {
  return llvm::StringSwitch<Folder>(op)
      .Cases({"Abs", "Ceil", "Floor", "Neg", "Not", "Reciprocal", "Sqrt"},
             foldUnary)
      .Cases({"Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Sum", "And",
              "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater",
              "GreaterOrEqual"},
             foldBinary)
      .Case("Cast", foldCast)
      .Case("CastLike", foldCastLike)
      .Case("Range", foldRange)
      .Cases({"ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum",
              "com.microsoft.ReduceSumTraining"},
             foldReduce)
      .Case("Shape", foldShape)
      .Case("Size", foldSize)
      .Case("Where", foldWhere)
      .Default(nullptr);
}

//===----------------------------------------------------------------------===//
// Which nodes are folded
//===----------------------------------------------------------------------===//

// Whether an input takes part in shape arithmetic: known, small, and nothing
// that may be trained.
static bool isFoldable(NodeImporter &node, unsigned index) {
  auto tensor = node.constant(index);
  return tensor && tensor->getNumElements() <= kMostFoldedElements &&
         !(tensor->isFloat() && node.isState(index));
}

// How many inputs must be known: Shape and Size read none, CastLike a type.
static unsigned countKnownInputs(NodeImporter &node) {
  return llvm::StringSwitch<unsigned>(node.getOpType())
      .Cases({"Shape", "Size"}, 0)
      .Case("CastLike", 1)
      .Default(node.getNumInputs());
}

FailureOr<bool> mpc::onnx_frontend::foldNode(NodeImporter &node) {
  std::string op = getOpName(node.getNode());
  Folder folder = getMovementFolder(op);
  folder = folder ? folder : getArithmeticFolder(op);
  if (!folder || node.getNumInputs() == 0)
    return false;
  for (unsigned i = 0, n = countKnownInputs(node); i < n; ++i)
    if (node.hasInput(i) && !isFoldable(node, i))
      return false;
  if (succeeded(folder(node)))
    return true;
  return node.hasFailed() ? FailureOr<bool>(failure()) : false;
}
