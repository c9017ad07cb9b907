// Reductions, and what is made of them: norms and normalisation without
// parameters.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Assemble.h"
#include "frontends/ONNX/Ops/ShapeArguments.h"
#include "frontends/ONNX/Ops/Window.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Powers and roots
//===----------------------------------------------------------------------===//

// Output 0 as `compute` makes it of input 0: of 16-bit floats in f32, as what
// lies between may not fit them. The square of 300 is no f16, though the root
// of it is.
static LogicalResult defineInF32(NodeImporter &node,
                                 llvm::function_ref<Value(Value)> compute) {
  Value x = node.operand(0);
  Type element = elementTypeOf(x);
  if (!element.isF16() && !element.isBF16())
    return node.define(0, compute(x));
  Value wide = castTo(node, x, node.attributes().getF32Type());
  return node.define(0, castTo(node, compute(wide), element));
}

// |x|^p. The square has no slope that is infinite or NaN.
static Value powerOf(NodeImporter &node, Value x, int64_t p) {
  if (!x || p == 2)
    return x ? node.emit<MulOp>({x, x}) : Value();
  Value size = node.emit<AbsOp>({x});
  if (!size || p == 1)
    return size;
  return node.emit<PowOp>({size, numberConstant(node, p, elementTypeOf(x))});
}

// The p-th root of x, which is not negative; its slope at 0 is 0, as that of
// PyTorch's norms, where the root's own would be infinite.
static Value flatRoot(NodeImporter &node, Value x, int64_t p) {
  if (!x || p == 1)
    return x;
  Type element = elementTypeOf(x);
  Value zero = numberConstant(node, 0.0, element);
  Value isZero = node.emit<EqualOp>({x, zero});
  Value steep =
      node.emit<SelectOp>({isZero, numberConstant(node, 1.0, element), x});
  Value root =
      p == 2
          ? node.emit<SqrtOp>({steep})
          : node.emit<PowOp>({steep, numberConstant(node, 1.0 / p, element)});
  return node.emit<SelectOp>({isZero, zero, root});
}

// Attribute p of norms.
static FailureOr<int64_t> readPower(NodeImporter &node) {
  int64_t p = node.integer("p", 2);
  if (p < 1)
    return node.invalid("expected attribute 'p' of at least 1, found " +
                        Twine(p));
  return p;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

namespace {
/// What a reduction is made of: one over the node's axes, and ops around it.
class Reducer {
public:
  Reducer(NodeImporter &node, const Reduction &reduction)
      : node(node), reduction(reduction) {}

  Value sum(Value x) { return reduce<ReduceSumOp>(x, reduction.keepDims); }
  Value mean(Value x) { return reduce<ReduceMeanOp>(x, reduction.keepDims); }
  Value product(Value x) { return reduce<ReduceProdOp>(x, reduction.keepDims); }
  Value max(Value x) { return reduce<ReduceMaxOp>(x, reduction.keepDims); }
  /// The largest elements in a shape that broadcasts against x.
  Value spreadMax(Value x) { return reduce<ReduceMaxOp>(x, true); }
  /// `value`, which has all axes, in the result's shape.
  Value drop(Value value);
  /// How many elements of x become one.
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

// The mean of integers is their sum divided as integers are, towards zero.
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

// m + log(sum(exp(x - m))), m the largest element: nothing overflows. Where
// that is infinite, m is 0: log(sum(exp(x))) is infinite too, and no inf - inf.
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

// The complement turns the order of integers round, of the smallest one too.
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

// The same of one that leaves its input as it is where it reduces nothing.
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

// A maximum or minimum, where booleans are bytes of 0 and 1.
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

// The p-norm over `axes`, which stay with size 1.
static Value normOver(NodeImporter &node, Value x, ArrayRef<int64_t> axes,
                      int64_t p) {
  return flatRoot(node, reduce<ReduceSumOp>(node, powerOf(node, x, p), axes),
                  p);
}

// x divided by its norm; NaN where that is 0.
static LogicalResult importLpNormalization(NodeImporter &node) {
  auto axis =
      node.normalizeAxis(node.integer("axis", -1), node.operandShape(0).size());
  FailureOr<int64_t> p = readPower(node);
  if (failed(axis) || failed(p))
    return failure();
  if (*p > 2)
    return node.invalid("expected attribute 'p' to be 1 or 2, found " +
                        Twine(*p));
  return defineInF32(node, [&](Value x) {
    return node.emit<DivOp>({x, normOver(node, x, *axis, *p)});
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

// `value` with zeros around it, so that every window is whole; in ceil_mode
// those behind that the last window needs too.
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
    int64_t end = offsets[d + 2] + extent; // of the input
    extent = end + window.pads[rank + d];
    int64_t rest = (extent - window.kernel[d]) % window.strides[d];
    int64_t next = extent - rest + window.strides[d] - window.kernel[d];
    // A window that would see nothing of the input is left out.
    if (ceilMode && extent >= window.kernel[d] && rest > 0 && next < end)
      extent += window.strides[d] - rest;
  }
  if (NodeImporter::shapeOf(value) == ArrayRef<int64_t>(shape))
    return value;
  return node.emit<PadOp>(
      {value}, {node.attribute("offsets", ArrayRef<int64_t>(offsets)),
                node.attribute("shape", ArrayRef<int64_t>(shape)),
                node.attribute("value", 0.0)});
}

// The p-norm of each window: the mean of powers times their number.
static LogicalResult importLpPool(NodeImporter &node) {
  auto window = readWindow(node, node.operandShape(0), {});
  FailureOr<int64_t> p = readPower(node);
  if (failed(window) || failed(p))
    return failure();
  if (llvm::any_of(window->dilations, [](int64_t d) { return d != 1; }))
    return node.unsupported("dilations other than 1 are not supported");
  bool ceilMode = node.integer("ceil_mode", 0) != 0;
  return defineInF32(node, [&](Value x) -> Value {
    Value powers = padForWindows(node, powerOf(node, x, *p), *window, ceilMode);
    window->pads.assign(window->pads.size(), 0);
    auto attributes = window->poolAttributes(node, /*ceilMode=*/false);
    attributes.push_back(node.attribute("count_include_pad", true));
    Value mean = node.emit<AveragePoolOp>({powers}, attributes);
    if (!mean)
      return {};
    Value count = numberConstant(
        node, ShapedType::getNumElements(window->kernel), elementTypeOf(mean));
    return flatRoot(node, node.emit<MulOp>({mean, count}), *p);
  });
}

// (x - mean) / (deviation + 1e-9).
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

static LogicalResult importCumSum(NodeImporter &node) {
  auto axes = node.integers(1, "the axis");
  if (failed(axes))
    return failure();
  if (axes->size() != 1)
    return node.invalid("expected one axis, found " + Twine(axes->size()));
  auto axis = node.normalizeAxis(axes->front(), node.operandShape(0).size());
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
      {"", "CumSum", 11, kNoEnd, 2, 2, 1, importCumSum},
      {"", "GlobalLpPool", 2, kNoEnd, 1, 1, 1, importGlobalLpPool},
      {"", "LpNormalization", 1, kNoEnd, 1, 1, 1, importLpNormalization},
      {"", "LpPool", 2, kNoEnd, 1, 1, 1, importLpPool},
      {"", "MeanVarianceNormalization", 9, kNoEnd, 1, 1, 1,
       importMeanVarianceNormalization},
      {"", "ReduceL1", 1, kNoEnd, 1, 2, 1, importReduction<reduceL1>},
      {"", "ReduceL2", 1, kNoEnd, 1, 2, 1, importReduction<reduceL2>},
      {"", "ReduceLogSum", 1, kNoEnd, 1, 2, 1, importReduction<reduceLogSum>},
      {"", "ReduceLogSumExp", 1, kNoEnd, 1, 2, 1,
       importReduction<reduceLogSumExp>},
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
