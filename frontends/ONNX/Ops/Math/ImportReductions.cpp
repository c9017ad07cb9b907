// Imports reductions, norms, normalization without parameters, and cumulative
// sums and products.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/ShapeArguments.h"
#include "frontends/ONNX/Ops/Math/Norms.h"
#include "frontends/ONNX/Ops/NN/Window.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

namespace {
/// Emits reductions over the axes of one node, `reduction.axes`.
class Reducer {
public:
  Reducer(NodeImporter &node, const Reduction &reduction)
      : node(node), reduction(reduction) {}

  Value sum(Value x) { return reduce<ReduceSumOp>(x, reduction.keepDims); }
  Value mean(Value x) { return reduce<ReduceMeanOp>(x, reduction.keepDims); }
  Value product(Value x) { return reduce<ReduceProdOp>(x, reduction.keepDims); }
  Value max(Value x) { return reduce<ReduceMaxOp>(x, reduction.keepDims); }
  /// Returns the largest elements. The reduced axes keep extent 1, so that the
  /// result broadcasts against x.
  Value spreadMax(Value x) { return reduce<ReduceMaxOp>(x, true); }
  /// Removes the reduced axes from `value`, unless the node keeps them.
  Value drop(Value value);
  /// Returns the number of elements of x that one result element combines.
  int64_t count(Value x) const;

private:
  template <typename OpT>
  Value reduce(Value x, bool keepDims) {
    return node.emit<OpT>(
        {x}, {node.attribute("axes", ArrayRef<int64_t>(reduction.axes)),
              node.attribute("keepdims", keepDims)});
  }

  NodeImporter &node;
  const Reduction &reduction;
};
} // namespace

Value Reducer::drop(Value value) {
  if (!value || reduction.keepDims)
    return value;
  SmallVector<int64_t> shape;
  for (auto [axis, extent] : llvm::enumerate(NodeImporter::shapeOf(value)))
    if (!llvm::is_contained(reduction.axes, static_cast<int64_t>(axis)))
      shape.push_back(extent);
  return node.reshape(value, shape);
}

int64_t Reducer::count(Value x) const {
  int64_t count = 1;
  for (int64_t axis : reduction.axes)
    count *= NodeImporter::shapeOf(x)[axis];
  return count;
}

static Value reduceSum(NodeImporter &, Reducer &reducer, Value x) {
  return reducer.sum(x);
}

static Value reduceProd(NodeImporter &, Reducer &reducer, Value x) {
  return reducer.product(x);
}

// The mean of integers is an integer division of their sum, toward zero.
static Value reduceMean(NodeImporter &node, Reducer &reducer, Value x) {
  if (!x || !elementTypeOf(x).isInteger())
    return reducer.mean(x);
  Value count = numberConstant(node, reducer.count(x), elementTypeOf(x));
  return node.emit<DivOp>({reducer.sum(x), count});
}

static Value reduceL1(NodeImporter &node, Reducer &reducer, Value x) {
  return reducer.sum(node.emit<AbsOp>({x}));
}

static Value reduceSumSquare(NodeImporter &node, Reducer &reducer, Value x) {
  return reducer.sum(node.emit<MulOp>({x, x}));
}

static Value reduceL2(NodeImporter &node, Reducer &reducer, Value x) {
  return flatRoot(node, reduceSumSquare(node, reducer, x), 2);
}

static Value reduceLogSum(NodeImporter &node, Reducer &reducer, Value x) {
  return node.emit<LogOp>({reducer.sum(x)});
}

// Computes log(sum(exp(x))) as m + log(sum(exp(x - m))), where m is the largest
// element, so nothing overflows. An infinite m is replaced by 0:
// log(sum(exp(x))) is then infinite anyway, and inf - inf is avoided.
static Value reduceLogSumExp(NodeImporter &node, Reducer &reducer, Value x) {
  Value largest = reducer.spreadMax(x);
  if (!largest)
    return {};
  largest = node.emit<SelectOp>(
      {node.emit<IsInfOp>({largest}),
       numberConstant(node, 0.0, elementTypeOf(largest)), largest});
  Value terms = node.emit<ExpOp>({node.emit<SubOp>({x, largest})});
  Value logarithm = node.emit<LogOp>({reducer.sum(terms)});
  return node.emit<AddOp>({logarithm, reducer.drop(largest)});
}

// Computes the minimum from the maximum of -x. For integers the complement
// replaces -x: it also reverses the order, and cannot overflow.
static Value reduceMin(NodeImporter &node, Reducer &reducer, Value x) {
  if (x && NodeImporter::typeOf(x).getElementType().isInteger())
    return node.emit<NotOp>({reducer.max(node.emit<NotOp>({x}))});
  return node.emit<NegOp>({reducer.max(node.emit<NegOp>({x}))});
}

static Value reduceMax(NodeImporter &, Reducer &reducer, Value x) {
  return reducer.max(x);
}

template <Value (*assemble)(NodeImporter &, Reducer &, Value)>
static LogicalResult importReduction(NodeImporter &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  Reducer reducer(node, *reduction);
  return defineInF32(node, [&](Value x) { return assemble(node, reducer, x); });
}

// Imports a reduction whose result may lie between integers, such as a norm or
// a logarithm. Integers are cast to f64, and the result is truncated toward
// zero, as Cast does. Sums below 2^53 are exact, and squares do not overflow.
template <Value (*assemble)(NodeImporter &, Reducer &, Value)>
static LogicalResult importRealReduction(NodeImporter &node) {
  Type element = node.operandType(0).getElementType();
  if (!element.isInteger())
    return importReduction<assemble>(node);
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  Reducer reducer(node, *reduction);
  Value x = castTo(node, node.operand(0), node.attributes().getF64Type());
  return node.define(0, castTo(node, assemble(node, reducer, x), element));
}

// Imports a reduction of a single op, such as ReduceSum. If
// noop_with_empty_axes is set and there are no axes, the result is the input.
template <Value (*assemble)(NodeImporter &, Reducer &, Value)>
static LogicalResult importPlainReduction(NodeImporter &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  Value x = node.operand(0);
  if (reduction->isIdentity)
    return node.define(0, x);
  Reducer reducer(node, *reduction);
  return node.define(0, assemble(node, reducer, x));
}

// Computes a maximum or minimum with `assemble`. Booleans are cast to bytes 0
// and 1, and back.
template <Value (*assemble)(NodeImporter &, Reducer &, Value)>
static Value reduceExtremum(NodeImporter &node, Reducer &reducer, Value x) {
  if (!x || !elementTypeOf(x).isInteger(1))
    return assemble(node, reducer, x);
  Type byte = node.attributes().getIntegerType(8, /*isSigned=*/false);
  auto bytes = RankedTensorType::get(NodeImporter::shapeOf(x), byte);
  Value y = assemble(node, reducer, node.emit<CastOp>({x}, {}, bytes));
  if (!y)
    return {};
  auto booleans = RankedTensorType::get(NodeImporter::shapeOf(y),
                                        node.attributes().getI1Type());
  return node.emit<CastOp>({y}, {}, booleans);
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

// Returns the p-norm of x over `axes`, which keep extent 1.
static Value normOver(NodeImporter &node, Value x, ArrayRef<int64_t> axes,
                      int64_t p) {
  return flatRoot(node, reduce<ReduceSumOp>(node, powerOf(node, x, p), axes),
                  p);
}

// Imports LpNormalization: divides x by the norm along an axis. The result is 0
// if the norm is 0.
static LogicalResult importLpNormalization(NodeImporter &node) {
  auto axis =
      node.normalizeAxis(node.integer("axis", -1), node.operandShape(0).size());
  FailureOr<int64_t> p = readPower(node);
  if (failed(axis) || failed(p))
    return failure();
  if (*p > 2)
    return node.invalid("expected attribute 'p' to be 1 or 2, found " +
                        Twine(*p));
  // Avoid the division by 0, whose gradient would be NaN.
  return defineInF32(node, [&](Value x) -> Value {
    Value norm = normOver(node, x, *axis, *p);
    if (!norm)
      return {};
    Value zero = numberConstant(node, 0.0, elementTypeOf(x));
    Value one = numberConstant(node, 1.0, elementTypeOf(x));
    Value isZero = node.emit<EqualOp>({norm, zero});
    Value divisor = node.emit<SelectOp>({isZero, one, norm});
    return node.emit<SelectOp>({isZero, zero, node.emit<DivOp>({x, divisor})});
  });
}

static LogicalResult importGlobalLpPool(NodeImporter &node) {
  int64_t rank = node.operandShape(0).size();
  FailureOr<int64_t> p = readPower(node);
  if (failed(p))
    return failure();
  if (rank < 3)
    return node.invalid("expected an input with spatial axes, found rank " +
                        Twine(rank));
  auto axes = llvm::to_vector(llvm::seq<int64_t>(2, rank));
  return defineInF32(node,
                     [&](Value x) { return normOver(node, x, axes, *p); });
}

// Imports MeanVarianceNormalization: (x - mean) / (standard deviation + 1e-9).
static LogicalResult importMeanVarianceNormalization(NodeImporter &node) {
  auto axes = node.normalizeAxes(
      node.integerList("axes").value_or(SmallVector<int64_t>{0, 2, 3}),
      node.operandShape(0).size());
  if (failed(axes))
    return failure();
  return defineInF32(node, [&](Value x) -> Value {
    Value centred = node.emit<SubOp>({x, reduce<ReduceMeanOp>(node, x, *axes)});
    Value variance =
        reduce<ReduceMeanOp>(node, powerOf(node, centred, 2), *axes);
    Value deviation = flatRoot(node, variance, 2);
    if (!deviation)
      return {};
    Value divisor = node.emit<AddOp>(
        {deviation, numberConstant(node, 1e-9, elementTypeOf(x))});
    return node.emit<DivOp>({centred, divisor});
  });
}

//===----------------------------------------------------------------------===//
// Cumulative sums
//===----------------------------------------------------------------------===//

// Reads the single axis in input 1.
static FailureOr<int64_t> readAxis(NodeImporter &node) {
  auto axes = node.integers(1, "the axis");
  if (failed(axes))
    return failure();
  if (axes->size() != 1)
    return node.invalid("expected one axis, found " + Twine(axes->size()));
  return node.normalizeAxis(axes->front(), node.operandShape(0).size());
}

// Shifts `value` by `steps` along an axis, toward the end or, if `reverse`, the
// start. Fills the gap with ones.
static Value shiftBehindOnes(NodeImporter &node, Value value, int64_t axis,
                             int64_t steps, bool reverse) {
  if (!value)
    return {};
  SmallVector<int64_t> sizes(NodeImporter::shapeOf(value)), ones = sizes;
  SmallVector<int64_t> offsets(sizes.size(), 0);
  ones[axis] = std::min(steps, sizes[axis]);
  Type element = NodeImporter::typeOf(value).getElementType();
  Value filled = expand(node, numberConstant(node, 1.0, element), ones);
  if (steps >= sizes[axis])
    return filled;
  sizes[axis] -= steps;
  offsets[axis] = reverse ? steps : 0;
  Value rest = slice(node, value, offsets, sizes);
  if (reverse)
    return concatenate(node, {rest, filled}, axis);
  return concatenate(node, {filled, rest}, axis);
}

// Computes cumulative products by doubling: products of two neighbours, then of
// four, and so on.
static LogicalResult importCumProd(NodeImporter &node) {
  FailureOr<int64_t> axis = readAxis(node);
  if (failed(axis))
    return failure();
  const bool reverse = node.integer("reverse", 0) != 0;
  const int64_t size = node.operandShape(0)[*axis];
  Value product = node.operand(0);
  for (int64_t steps = 1; product && steps < size; steps *= 2)
    product = node.emit<MulOp>(
        {product, shiftBehindOnes(node, product, *axis, steps, reverse)});
  if (node.integer("exclusive", 0) != 0)
    product = shiftBehindOnes(node, product, *axis, 1, reverse);
  return node.define(0, product);
}

static LogicalResult importCumSum(NodeImporter &node) {
  FailureOr<int64_t> axis = readAxis(node);
  if (failed(axis))
    return failure();
  return node.define(
      0, node.emit<CumSumOp>(
             {node.operand(0)},
             {node.attribute("axis", *axis),
              node.attribute("exclusive", node.integer("exclusive", 0) != 0),
              node.attribute("reverse", node.integer("reverse", 0) != 0)}));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getReductionOps() {
  static const OpEntry entries[] = {
      // Domain, name, first and last opset, least and most inputs, outputs.
      {"", "CumProd", 26, kNoEnd, 2, 2, 1, importCumProd},
      {"", "CumSum", 11, kNoEnd, 2, 2, 1, importCumSum},
      {"", "GlobalLpPool", 2, kNoEnd, 1, 1, 1, importGlobalLpPool},
      {"", "LpNormalization", 1, kNoEnd, 1, 1, 1, importLpNormalization},
      {"", "MeanVarianceNormalization", 9, kNoEnd, 1, 1, 1,
       importMeanVarianceNormalization},
      {"", "ReduceL1", 1, kNoEnd, 1, 2, 1, importReduction<reduceL1>},
      {"", "ReduceL2", 1, kNoEnd, 1, 2, 1, importRealReduction<reduceL2>},
      {"", "ReduceLogSum", 1, kNoEnd, 1, 2, 1,
       importRealReduction<reduceLogSum>},
      {"", "ReduceLogSumExp", 1, kNoEnd, 1, 2, 1,
       importRealReduction<reduceLogSumExp>},
      {"", "ReduceMax", 1, kNoEnd, 1, 2, 1,
       importPlainReduction<reduceExtremum<reduceMax>>},
      {"", "ReduceMean", 1, kNoEnd, 1, 2, 1, importPlainReduction<reduceMean>},
      {"", "ReduceMin", 1, kNoEnd, 1, 2, 1,
       importPlainReduction<reduceExtremum<reduceMin>>},
      {"", "ReduceProd", 1, kNoEnd, 1, 2, 1, importPlainReduction<reduceProd>},
      {"", "ReduceSum", 1, kNoEnd, 1, 2, 1, importPlainReduction<reduceSum>},
      {"", "ReduceSumSquare", 1, kNoEnd, 1, 2, 1,
       importReduction<reduceSumSquare>},
      {kMicrosoft, "ReduceSumTraining", 1, kNoEnd, 2, 2, 1,
       importPlainReduction<reduceSum>},
  };
  return entries;
}
