// Folds ops on constants: arithmetic, selection and conversion, element by
// element, and integer reductions. Integers and booleans use the formulas of
// IntegerFormulas.def, floats those of FloatFormulas.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Fold/ConstantElements.h"
#include "compiler/Dialect/MPC/Fold/FloatFormulas.h"
#include "compiler/Dialect/MPC/Fold/IntegerFormulas.h"

using namespace mlir;
using namespace mpc;
using llvm::APFloat;
using llvm::APInt;
using llvm::APSInt;

//===----------------------------------------------------------------------===//
// Element by element
//===----------------------------------------------------------------------===//

// Reads the elements of all operands. nullopt if an operand is not constant, or
// if the operands or the result have too many elements.
static std::optional<SmallVector<ConstantElements>>
readAll(RankedTensorType result, ArrayRef<Attribute> operands) {
  // Check for missing operands before reading any, since reading copies the
  // elements.
  if (llvm::is_contained(operands, Attribute()))
    return std::nullopt;
  SmallVector<ConstantElements> read;
  for (Attribute operand : operands) {
    auto elements = ConstantElements::read(operand);
    if (!elements)
      return std::nullopt;
    read.push_back(std::move(*elements));
  }
  bool isSplat = llvm::all_of(
      read, [](const ConstantElements &each) { return each.isSplat(); });
  if (!isSplat && result.getNumElements() > kMostFoldedResults)
    return std::nullopt;
  return read;
}

// Makes a constant of `type`, element by element. `compute` receives a
// row-major position in each operand, to which the element's index broadcasts,
// and returns the element.
static OpFoldResult
mapElements(RankedTensorType type, ArrayRef<ConstantElements> operands,
            llvm::function_ref<APInt(ArrayRef<int64_t>)> compute) {
  if (type.getNumElements() == 0)
    return DenseElementsAttr::get(type, ArrayRef<Attribute>());
  SmallVector<int64_t> positions(operands.size(), 0);
  bool isSplat = llvm::all_of(
      operands, [](const ConstantElements &each) { return each.isSplat(); });
  if (isSplat)
    return makeElements(type, compute(positions));
  SmallVector<APInt> results;
  forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index) {
    for (auto [position, operand] : llvm::zip(positions, operands))
      position = getPosition(index, operand.getType().getShape());
    results.push_back(compute(positions));
  });
  return makeElements(type, results);
}

static bool isIntegral(Value value) {
  return isa<IntegerType>(elementOf(value));
}

static APInt toBits(const APSInt &value) { return value; }
static APInt toBits(const APFloat &value) { return value.bitcastToAPInt(); }
static APInt toBits(bool value) { return APInt(1, value); }

// The type that floats::evaluate returns for the op `OpTy` on operands of the
// types `Floats`. A substitution failure if FloatFormulas.h has no formula for
// the op.
template <typename OpTy, typename... Floats>
using FloatResult =
    decltype(floats::evaluate(std::declval<OpTy>(), std::declval<Floats>()...));

// True if all operands have one float type, and the result has this type or is
// boolean. Ops of mixed types, such as a sum of bf16 numbers stored in f32, are
// not folded, since kernels decide how to round.
static bool isOfOneType(Operation *op) {
  Type element = elementOf(op->getOperand(0));
  Type result = elementOf(op->getResult(0));
  return isa<FloatType>(element) &&
         (result == element || result.isInteger(1)) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return elementOf(operand) == element;
         });
}

template <typename OpTy>
static OpFoldResult foldFloats(OpTy op, Attribute input) {
  auto read = isOfOneType(op) ? readAll(op.getType(), {input}) : std::nullopt;
  if (!read)
    return {};
  return mapElements(op.getType(), *read, [&](ArrayRef<int64_t> at) {
    return toBits(floats::evaluate(op, (*read)[0].getFloat(at[0])));
  });
}

template <typename OpTy>
static OpFoldResult foldFloats(OpTy op, Attribute lhs, Attribute rhs) {
  auto read =
      isOfOneType(op) ? readAll(op.getType(), {lhs, rhs}) : std::nullopt;
  if (!read)
    return {};
  return mapElements(op.getType(), *read, [&](ArrayRef<int64_t> at) {
    return toBits(floats::evaluate(op, (*read)[0].getFloat(at[0]),
                                   (*read)[1].getFloat(at[1])));
  });
}

template <typename OpTy>
static OpFoldResult foldUnary(OpTy op, Attribute input) {
  if constexpr (llvm::is_detected<FloatResult, OpTy, APFloat>::value)
    if (!isIntegral(op.getInput()))
      return foldFloats(op, input);
  auto read =
      isIntegral(op.getInput()) ? readAll(op.getType(), {input}) : std::nullopt;
  if (!read)
    return {};
  return mapElements(op.getType(), *read, [&](ArrayRef<int64_t> at) {
    return integers::evaluate(op, (*read)[0].getInteger(at[0]));
  });
}

template <typename OpTy>
static OpFoldResult foldBinary(OpTy op, Attribute lhs, Attribute rhs) {
  if constexpr (llvm::is_detected<FloatResult, OpTy, APFloat, APFloat>::value)
    if (!isIntegral(op.getLhs()))
      return foldFloats(op, lhs, rhs);
  auto read = isIntegral(op.getLhs()) ? readAll(op.getType(), {lhs, rhs})
                                      : std::nullopt;
  if (!read)
    return {};
  return mapElements(op.getType(), *read, [&](ArrayRef<int64_t> at) {
    return toBits(integers::evaluate(op, (*read)[0].getInteger(at[0]),
                                     (*read)[1].getInteger(at[1])));
  });
}

#define MPC_INTEGER_UNARY(OP, FORMULA)                                         \
  OpFoldResult OP##Op::fold(FoldAdaptor adaptor) {                             \
    return foldUnary(*this, adaptor.getInput());                               \
  }
#define MPC_INTEGER_BINARY(OP, FORMULA)                                        \
  OpFoldResult OP##Op::fold(FoldAdaptor adaptor) {                             \
    return foldBinary(*this, adaptor.getLhs(), adaptor.getRhs());              \
  }
#define MPC_INTEGER_COMPARE(OP, FORMULA) MPC_INTEGER_BINARY(OP, FORMULA)
#include "compiler/Dialect/MPC/Fold/IntegerFormulas.def"

#define MPC_FOLD_FLOATS(OP)                                                    \
  OpFoldResult OP##Op::fold(FoldAdaptor adaptor) {                             \
    return foldFloats(*this, adaptor.getInput());                              \
  }
MPC_FOLD_FLOATS(Relu)
MPC_FOLD_FLOATS(Sqrt)
MPC_FOLD_FLOATS(Reciprocal)
MPC_FOLD_FLOATS(Ceil)
MPC_FOLD_FLOATS(Floor)
MPC_FOLD_FLOATS(Round)
#undef MPC_FOLD_FLOATS

OpFoldResult SelectOp::fold(FoldAdaptor adaptor) {
  // Fold to the common choice only if the result needs no broadcast.
  if (getOnTrue() == getOnFalse() && getOnTrue().getType() == getType())
    return getOnTrue();
  auto read = readAll(getType(), {adaptor.getCondition(), adaptor.getOnTrue(),
                                  adaptor.getOnFalse()});
  bool isChoice = elementOf(getOnTrue()) == getType().getElementType() &&
                  elementOf(getOnFalse()) == getType().getElementType();
  if (!read || !isChoice)
    return {};
  return mapElements(getType(), *read, [&](ArrayRef<int64_t> at) {
    unsigned chosen = (*read)[0].getBits(at[0]).isZero() ? 2 : 1;
    return (*read)[chosen].getBits(at[chosen]);
  });
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

// Converts a float to an integer of type `to` like generated code; the
// description of mpc.cast has the rules.
static APInt truncate(const APFloat &value, Type to) {
  bool isWide = to.isUnsignedInteger(64) && !value.isNegative();
  APSInt whole(64, /*isUnsigned=*/isWide);
  bool isExact;
  if (value.convertToInteger(whole, APFloat::rmTowardZero, &isExact) &
      APFloat::opInvalidOp)
    whole = APSInt(APInt::getSignedMinValue(64));
  return whole.trunc(to.getIntOrFloatBitWidth());
}

// Converts an integer to a float type: kernels round to f32 first, or to f64 if
// `to` is f64, and then to `to`.
static APInt toFloatBits(const APSInt &value, FloatType to) {
  APFloat result(to.isF64() ? APFloat::IEEEdouble() : APFloat::IEEEsingle());
  result.convertFromAPInt(value, value.isSigned(),
                          APFloat::rmNearestTiesToEven);
  bool losesInfo;
  result.convert(to.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return result.bitcastToAPInt();
}

static APInt convertElement(const ConstantElements &from, int64_t at, Type to) {
  auto toFloat = dyn_cast<FloatType>(to);
  // An integer becomes a float, a bool (true unless 0), or another integer (the
  // low bits).
  if (isa<IntegerType>(from.getElementType())) {
    APSInt value = from.getInteger(at);
    if (toFloat)
      return toFloatBits(value, toFloat);
    return to.isInteger(1)
               ? APInt(1, !value.isZero())
               : APInt(value.extOrTrunc(to.getIntOrFloatBitWidth()));
  }
  // A float becomes a bool (true unless 0), an integer, or another float
  // (rounded).
  APFloat value = from.getFloat(at);
  if (to.isInteger(1))
    return APInt(1, !value.isZero());
  if (!toFloat)
    return truncate(value, to);
  bool losesInfo;
  value.convert(toFloat.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.bitcastToAPInt();
}

/// Folds an op that converts each element on its own: to its input if both
/// types are equal, to a constant if the input is constant. `convert(input,
/// position)` returns the bits of a converted element.
template <typename OpTy, typename Convert>
static OpFoldResult foldConversion(OpTy op, Attribute input, Convert convert) {
  if (op.getInput().getType() == op.getType())
    return op.getInput();
  auto read = readAll(op.getType(), {input});
  if (!read)
    return {};
  return mapElements(op.getType(), *read, [&](ArrayRef<int64_t> at) {
    return convert(read->front(), at[0]);
  });
}

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  return foldConversion(
      *this, adaptor.getInput(), [&](const auto &input, int64_t at) {
        return convertElement(input, at, getType().getElementType());
      });
}

OpFoldResult BitCastOp::fold(FoldAdaptor adaptor) {
  return foldConversion(
      *this, adaptor.getInput(),
      [](const auto &input, int64_t at) { return input.getBits(at); });
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

template <typename OpTy>
static OpFoldResult foldReduction(OpTy op, Attribute input) {
  if (!isIntegral(op.getInput()) || op.getParts())
    return {};
  auto read = ConstantElements::read(input);
  if (!read || read->getType().getNumElements() > kMostFoldedElements)
    return {};
  // `kept` is the shape of the results with size 1 along reduced axes, so
  // getPosition maps the index of each element to its accumulator.
  ArrayRef<int64_t> shape = read->getType().getShape();
  SmallVector<int64_t> kept(shape);
  for (int64_t axis : op.getAxes())
    kept[axis] = 1;
  Type element = read->getElementType();
  APSInt zero(element.getIntOrFloatBitWidth(), isUnsignedElement(element));
  SmallVector<APSInt> results(ShapedType::getNumElements(kept),
                              integers::getFirst(op, zero));
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    APSInt &result = results[getPosition(index, kept)];
    result = integers::evaluate(op, result,
                                read->getInteger(getPosition(index, shape)));
  });
  return makeElements(op.getType(),
                      SmallVector<APInt>(results.begin(), results.end()));
}

#define MPC_INTEGER_REDUCE(OP, FIRST, STEP)                                    \
  OpFoldResult OP##Op::fold(FoldAdaptor adaptor) {                             \
    return foldReduction(*this, adaptor.getInput());                           \
  }
#include "compiler/Dialect/MPC/Fold/IntegerFormulas.def"
