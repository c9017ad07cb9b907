// Infers the result shapes of mpc ops, and checks operands and attributes on
// the way. The verifier of an op infers the shapes again. The importer infers
// shapes before it builds an op, so that an invalid model gives an error
// message.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Formulas.h"
#include "compiler/Dialect/MPC/Shapes/ShapeInference.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Shared checks
//===----------------------------------------------------------------------===//

std::string mpc::printShape(ArrayRef<int64_t> shape) {
  std::string text = "[";
  llvm::raw_string_ostream os(text);
  llvm::interleave(shape, os, ",");
  return text + "]";
}

std::string mpc::printElementType(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

std::string mpc::printTensorType(RankedTensorType type) {
  return printElementType(type.getElementType()) + printShape(type.getShape());
}

FailureOr<Shape> mpc::broadcastShapes(ArrayRef<int64_t> lhs,
                                      ArrayRef<int64_t> rhs) {
  Shape result(std::max(lhs.size(), rhs.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t a = i < lhs.size() ? lhs[lhs.size() - 1 - i] : 1;
    int64_t b = i < rhs.size() ? rhs[rhs.size() - 1 - i] : 1;
    if (a != b && a != 1 && b != 1)
      return failure();
    result[result.size() - 1 - i] = a == 1 ? b : a;
  }
  return result;
}

bool mpc::areCompatibleTypes(TypeRange inferred, TypeRange actual) {
  return inferred.size() == actual.size() &&
         llvm::all_of(llvm::zip(inferred, actual), [](auto pair) {
           auto [l, r] = pair;
           auto lhs = cast<RankedTensorType>(l),
                rhs = cast<RankedTensorType>(r);
           Type a = lhs.getElementType(), b = rhs.getElementType();
           return lhs.getShape() == rhs.getShape() &&
                  (a == b || (isa<FloatType>(a) && isa<FloatType>(b)));
         });
}

Shape mpc::fillStrides(ArrayRef<int64_t> strides, size_t rank) {
  return strides.empty() ? Shape(rank, 1) : Shape(strides);
}

// Infers a result of the shape to which all values broadcast, with element type
// `element`. Fails if they do not broadcast.
static LogicalResult inferBroadcast(std::optional<Location> loc,
                                    ValueRange values, Type element,
                                    Components &results) {
  Shape shape;
  for (Value value : values) {
    FailureOr<Shape> next = broadcastShapes(shape, shapeOf(value));
    if (failed(next))
      return emitOptionalError(loc, "shapes [", ArrayRef<int64_t>(shape),
                               "] and [", shapeOf(value),
                               "] do not broadcast together");
    shape = *next;
  }
  return infer(results, shape, element);
}

// Checks that all values have the shape of the first value.
LogicalResult mpc::verifySameShape(std::optional<Location> loc,
                                   ValueRange values) {
  for (Value value : values.drop_front())
    if (shapeOf(value) != shapeOf(values.front()))
      return emitOptionalError(loc, "expected shape [", shapeOf(values.front()),
                               "], found [", shapeOf(value), "]");
  return success();
}

LogicalResult mpc::verifyAxis(std::optional<Location> loc, int64_t axis,
                              int64_t rank) {
  if (axis < 0 || axis >= rank)
    return emitOptionalError(loc, "axis ", axis, " is not in [0, ", rank, ")");
  return success();
}

// Checks that each vector has one element per channel.
LogicalResult mpc::verifyChannels(std::optional<Location> loc, Value input,
                                  Layout layout, ValueRange vectors) {
  ArrayRef<int64_t> shape = shapeOf(input);
  if (shape.size() < 2)
    return emitOptionalError(loc, "expected rank of at least 2, found ",
                             shape.size());
  int64_t channels = shape[getChannelAxis(layout, shape.size())];
  for (Value vector : vectors)
    if (shapeOf(vector) != ArrayRef<int64_t>(channels))
      return emitOptionalError(loc, "expected a vector of ", channels,
                               " elements, one per channel, found [",
                               shapeOf(vector), "]");
  return success();
}
//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

// Checks that all values have one element type, or are all floats. Float types
// may differ, since kernels convert them to a common type.
static LogicalResult verifyElementTypes(std::optional<Location> loc,
                                        ValueRange values) {
  Type first = elementOf(values.front());
  for (Value value : values.drop_front()) {
    Type other = elementOf(value);
    if (first != other && !(isa<FloatType>(first) && isa<FloatType>(other)))
      return emitOptionalError(loc,
                               "expected operands of one element type, "
                               "found ",
                               first, " and ", other);
  }
  return success();
}

LogicalResult mpc::inferUnary(Value operand, Components &results) {
  return infer(results, shapeOf(operand), elementOf(operand));
}

LogicalResult mpc::inferBinary(std::optional<Location> loc, ValueRange operands,
                               Components &results) {
  if (failed(verifyElementTypes(loc, operands)))
    return failure();
  return inferBroadcast(loc, operands, elementOf(operands.front()), results);
}

INFER(FormulaGradOp) {
  if (!formulas::findFormula(adaptor.getOf()))
    return emitOptionalError(loc, "there is no formula of \"", adaptor.getOf(),
                             "\"");
  if (failed(verifySameShape(loc, adaptor.getOperands())))
    return failure();
  return inferUnary(adaptor.getDOutput(), results);
}

LogicalResult mpc::inferCompare(std::optional<Location> loc,
                                ValueRange operands, Components &results) {
  if (failed(verifyElementTypes(loc, operands)))
    return failure();
  auto boolean = IntegerType::get(operands.front().getContext(), 1);
  return inferBroadcast(loc, operands, boolean, results);
}

INFER(SelectOp) {
  if (failed(verifyElementTypes(loc, adaptor.getOperands().drop_front())))
    return failure();
  return inferBroadcast(loc, adaptor.getOperands(),
                        elementOf(adaptor.getOnTrue()), results);
}

INFER(DropoutOp) {
  double ratio = adaptor.getRatio().convertToDouble();
  if (!(ratio >= 0.0 && ratio < 1.0))
    return emitOptionalError(loc, "expected ratio in [0, 1), found ", ratio);
  if (!isScalar(adaptor.getSeed()) || !isScalar(adaptor.getMicroStep()))
    return emitOptionalError(loc,
                             "expected scalar seed and micro_step, found [",
                             shapeOf(adaptor.getSeed()), "] and [",
                             shapeOf(adaptor.getMicroStep()), "]");
  if (adaptor.getGroup() && !isScalar(adaptor.getGroup()))
    return emitOptionalError(loc, "expected a scalar group, found [",
                             shapeOf(adaptor.getGroup()), "]");
  if (static_cast<bool>(adaptor.getGroup()) != adaptor.getWhole().has_value())
    return emitOptionalError(loc,
                             "expected both group and whole or neither, found ",
                             adaptor.getGroup() ? "group" : "whole", " alone");
  if (adaptor.getWhole() &&
      adaptor.getWhole()->size() != shapeOf(adaptor.getInput()).size())
    return emitOptionalError(
        loc, "expected whole to have the rank of the input, found [",
        *adaptor.getWhole(), "] and [", shapeOf(adaptor.getInput()), "]");
  return infer(results, shapeOf(adaptor.getInput()),
               elementOf(adaptor.getInput()));
}

INFER(OneHotOp) {
  Shape shape(shapeOf(adaptor.getLabels()));
  int64_t axis = adaptor.getAxis();
  if (failed(verifyAxis(loc, axis, shape.size() + 1)))
    return failure();
  if (adaptor.getDepth() < 1)
    return emitOptionalError(loc, "expected depth of at least 1, found ",
                             adaptor.getDepth());
  shape.insert(shape.begin() + axis, adaptor.getDepth());
  return infer(results, shape, Float32Type::get(context));
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

INFER(TransposeOp) {
  ArrayRef<int64_t> input = shapeOf(adaptor.getInput());
  ArrayRef<int64_t> perm = adaptor.getPerm();
  Shape sorted(perm), shape;
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, input.size())))
    return emitOptionalError(loc, "perm [", perm,
                             "] is not a permutation of the ", input.size(),
                             " axes");
  for (int64_t axis : perm)
    shape.push_back(input[axis]);
  return infer(results, shape, elementOf(adaptor.getInput()));
}

INFER(ConcatOp) {
  ValueRange inputs = adaptor.getInputs();
  if (inputs.empty())
    return emitOptionalError(loc, "expected at least one input");
  Shape shape(shapeOf(inputs.front()));
  int64_t axis = adaptor.getAxis();
  if (failed(verifyAxis(loc, axis, shape.size())))
    return failure();
  // Extents along the joined axis add up; all other extents must be equal.
  shape[axis] = 0;
  for (Value input : inputs) {
    ArrayRef<int64_t> other = shapeOf(input);
    bool fits =
        other.size() == shape.size() &&
        llvm::all_of(llvm::seq<int64_t>(0, shape.size()), [&](int64_t d) {
          return d == axis || other[d] == shape[d];
        });
    if (!fits)
      return emitOptionalError(loc, "input of shape [", other,
                               "] does not join [", shapeOf(inputs.front()),
                               "] along axis ", axis);
    shape[axis] += other[axis];
  }
  return infer(results, shape, elementOf(inputs.front()));
}

// Checks that `count` elements, which start at `offset` and are `stride` apart,
// lie within an axis of `extent` elements.
static LogicalResult verifyRange(std::optional<Location> loc, int64_t extent,
                                 int64_t offset, int64_t count,
                                 int64_t stride) {
  auto isInside = [&](int64_t position) {
    return position >= 0 && position < extent;
  };
  // With stride 1, compare without an addition that might overflow.
  if (stride == 1) {
    if (offset >= 0 && count >= 0 && count <= extent &&
        offset <= extent - count)
      return success();
    return emitOptionalError(loc, "elements [", offset, ", ", offset + count,
                             ") are outside an axis of size ", extent);
  }
  if (stride == 0)
    return emitOptionalError(loc, "expected strides other than 0, found 0");
  // With other strides, which may be negative, the first and the last element
  // must lie in the axis. The position of the last may overflow 64 bits.
  int64_t distance, last;
  if (count == 0 ||
      (count > 0 && isInside(offset) &&
       !llvm::MulOverflow(count - 1, stride, distance) &&
       !llvm::AddOverflow(offset, distance, last) && isInside(last)))
    return success();
  return emitOptionalError(loc, count, " elements from ", offset, " on, ",
                           stride, " apart, are outside an axis of size ",
                           extent);
}

// Checks that the selected elements, `counts` along each axis, lie within a
// tensor of `shape`.
static LogicalResult verifyBox(std::optional<Location> loc,
                               ArrayRef<int64_t> shape,
                               ArrayRef<int64_t> offsets,
                               ArrayRef<int64_t> counts,
                               ArrayRef<int64_t> strides) {
  if (!strides.empty() && strides.size() != shape.size())
    return emitOptionalError(loc, "expected ", shape.size(),
                             " strides, one per axis, found ", strides.size());
  for (auto [extent, offset, count, stride] :
       llvm::zip(shape, offsets, counts, fillStrides(strides, shape.size())))
    if (failed(verifyRange(loc, extent, offset, count, stride)))
      return failure();
  return success();
}

INFER(SliceOp) {
  ArrayRef<int64_t> shape = shapeOf(adaptor.getInput());
  ArrayRef<int64_t> offsets = adaptor.getOffsets(), sizes = adaptor.getSizes();
  if (offsets.size() != shape.size() || sizes.size() != shape.size())
    return emitOptionalError(loc, "expected ", shape.size(),
                             " offsets and sizes, one per axis, found ",
                             offsets.size(), " and ", sizes.size());
  if (failed(verifyBox(loc, shape, offsets, sizes, adaptor.getStrides())))
    return failure();
  return infer(results, sizes, elementOf(adaptor.getInput()));
}

INFER(PadOp) {
  ArrayRef<int64_t> size = shapeOf(adaptor.getInput());
  ArrayRef<int64_t> offsets = adaptor.getOffsets(), shape = adaptor.getShape();
  if (offsets.size() != size.size() || shape.size() != size.size())
    return emitOptionalError(loc, "expected ", size.size(),
                             " offsets and extents, one per axis, found ",
                             offsets.size(), " and ", shape.size());
  if (failed(verifyBox(loc, shape, offsets, size, adaptor.getStrides())))
    return failure();
  return infer(results, shape, elementOf(adaptor.getInput()));
}

//===----------------------------------------------------------------------===//
// Cumulative sums
//===----------------------------------------------------------------------===//

INFER(CumSumOp) {
  if (failed(verifyAxis(loc, adaptor.getAxis(),
                        shapeOf(adaptor.getInput()).size())))
    return failure();
  return inferUnary(adaptor.getInput(), results);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

// Checks a reduction that is split into `parts` equal runs along its first
// reduced axis. The axis must remain in the result, with one element per part.
static LogicalResult verifyParts(std::optional<Location> loc,
                                 ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> axes, bool keepdims,
                                 int64_t parts) {
  if (!keepdims || axes.empty())
    return emitOptionalError(
        loc, "expected reduced axes, and keepdims, because 'parts' is ", parts,
        ", found axes [", axes, "]", keepdims ? "" : " without keepdims");
  int64_t extent = shape[axes.front()];
  if (parts < 1 || extent % parts != 0)
    return emitOptionalError(loc, "expected 'parts' to divide an axis of size ",
                             extent, ", found ", parts);
  return success();
}

static LogicalResult inferReduction(std::optional<Location> loc, Value input,
                                    ArrayRef<int64_t> axes, bool keepdims,
                                    std::optional<int64_t> parts,
                                    Components &results) {
  ArrayRef<int64_t> shape = shapeOf(input);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (failed(verifyAxis(loc, axis, shape.size())))
      return failure();
    if (i > 0 && axes[i - 1] >= axis)
      return emitOptionalError(loc, "expected sorted, distinct axes, found [",
                               axes, "]");
  }
  if (parts && failed(verifyParts(loc, shape, axes, keepdims, *parts)))
    return failure();
  // A reduced axis vanishes, or with keepdims gets size 1. If the reduction is
  // split, its first axis gets size `parts`.
  Shape reduced;
  for (auto [axis, extent] : llvm::enumerate(shape)) {
    if (!llvm::is_contained(axes, static_cast<int64_t>(axis)))
      reduced.push_back(extent);
    else if (keepdims)
      reduced.push_back(
          parts && axis == static_cast<size_t>(axes.front()) ? *parts : 1);
  }
  return infer(results, reduced, elementOf(input));
}

#define INFER_REDUCTION(OpTy)                                                  \
  INFER(OpTy) {                                                                \
    return inferReduction(loc, adaptor.getInput(), adaptor.getAxes(),          \
                          adaptor.getKeepdims(), adaptor.getParts(), results); \
  }
INFER_REDUCTION(ReduceSumOp)
INFER_REDUCTION(ReduceMeanOp)
INFER_REDUCTION(ReduceMaxOp)
INFER_REDUCTION(ReduceProdOp)

static LogicalResult inferAlongAxis(std::optional<Location> loc, Value input,
                                    int64_t axis, Components &results) {
  if (failed(verifyAxis(loc, axis, shapeOf(input).size())))
    return failure();
  return infer(results, shapeOf(input), elementOf(input));
}

INFER(SoftmaxOp) {
  return inferAlongAxis(loc, adaptor.getInput(), adaptor.getAxis(), results);
}
INFER(LogSoftmaxOp) {
  return inferAlongAxis(loc, adaptor.getInput(), adaptor.getAxis(), results);
}
INFER(SoftmaxGradOp) {
  if (failed(verifySameShape(loc, adaptor.getOperands())))
    return failure();
  return inferAlongAxis(loc, adaptor.getDOutput(), adaptor.getAxis(), results);
}
INFER(LogSoftmaxGradOp) {
  if (failed(verifySameShape(loc, adaptor.getOperands())))
    return failure();
  return inferAlongAxis(loc, adaptor.getDOutput(), adaptor.getAxis(), results);
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

// Returns the rows and columns of the matrices in the last two axes, swapped if
// `transposed`.
static std::pair<int64_t, int64_t> matrixOf(ArrayRef<int64_t> shape,
                                            bool transposed) {
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  return transposed ? std::make_pair(columns, rows)
                    : std::make_pair(rows, columns);
}

INFER(MatMulOp) {
  ArrayRef<int64_t> lhs = shapeOf(adaptor.getLhs());
  ArrayRef<int64_t> rhs = shapeOf(adaptor.getRhs());
  if (lhs.size() < 2 || rhs.size() < 2)
    return emitOptionalError(loc,
                             "expected operands of rank 2 or more, found [",
                             lhs, "] and [", rhs, "]");
  auto [m, k] = matrixOf(lhs, adaptor.getTransA());
  auto [otherK, n] = matrixOf(rhs, adaptor.getTransB());
  if (k != otherK)
    return emitOptionalError(loc, "inner dimensions ", k, " and ", otherK,
                             " differ");
  FailureOr<Shape> shape = broadcastShapes(lhs.drop_back(2), rhs.drop_back(2));
  if (failed(shape))
    return emitOptionalError(loc, "batch dimensions of [", lhs, "] and [", rhs,
                             "] do not broadcast together");
  shape->append({m, n});
  return infer(results, *shape, elementOf(adaptor.getLhs()));
}

INFER(GemmOp) {
  ArrayRef<int64_t> a = shapeOf(adaptor.getA()), b = shapeOf(adaptor.getB());
  if (a.size() != 2 || b.size() != 2)
    return emitOptionalError(loc, "expected matrices, found [", a, "] and [", b,
                             "]");
  auto [m, k] = matrixOf(a, adaptor.getTransA());
  auto [otherK, n] = matrixOf(b, adaptor.getTransB());
  if (k != otherK)
    return emitOptionalError(loc, "inner dimensions ", k, " and ", otherK,
                             " differ");
  Shape shape = {m, n};
  if (Value c = adaptor.getC()) {
    FailureOr<Shape> both = broadcastShapes(shapeOf(c), shape);
    if (failed(both) || *both != shape)
      return emitOptionalError(loc, "C of shape [", shapeOf(c),
                               "] does not broadcast to [",
                               ArrayRef<int64_t>(shape), "]");
  }
  return infer(results, shape, elementOf(adaptor.getA()));
}

//===----------------------------------------------------------------------===//
// Gradients of elementwise ops, and optimizers
//===----------------------------------------------------------------------===//

#define INFER_SAME_SHAPE(OpTy)                                                 \
  INFER(OpTy) {                                                                \
    ValueRange operands = adaptor.getOperands();                               \
    if (failed(verifySameShape(loc, operands)))                                \
      return failure();                                                        \
    return infer(results, shapeOf(operands.front()),                           \
                 elementOf(operands.front()));                                 \
  }
INFER_SAME_SHAPE(ReluGradOp)
INFER_SAME_SHAPE(SigmoidGradOp)
INFER_SAME_SHAPE(TanhGradOp)
INFER_SAME_SHAPE(ClipGradOp)

// Infers the result of fake quantization or of its gradients. All operands,
// such as scale and zero point, must broadcast to the quantized tensor.
template <typename Adaptor>
static LogicalResult inferFakeQuantize(std::optional<Location> loc,
                                       Adaptor adaptor, Components &results) {
  auto low = static_cast<int64_t>(adaptor.getLow());
  auto high = static_cast<int64_t>(adaptor.getHigh());
  if (low >= high)
    return emitOptionalError(loc, "expected low below high, found ", low,
                             " and ", high);
  Shape shape(shapeOf(adaptor.getInput()));
  for (Value value : adaptor.getOperands()) {
    auto both = broadcastShapes(shape, shapeOf(value));
    if (failed(both) || ArrayRef<int64_t>(*both) != ArrayRef<int64_t>(shape))
      return emitOptionalError(loc, "expected what broadcasts to [",
                               ArrayRef<int64_t>(shape), "], found [",
                               shapeOf(value), "]");
  }
  return infer(results, shape, elementOf(adaptor.getOperands().front()));
}

INFER(FakeQuantizeOp) { return inferFakeQuantize(loc, adaptor, results); }
INFER(FakeQuantizeGradOp) { return inferFakeQuantize(loc, adaptor, results); }
INFER(FakeQuantizeScaleGradOp) {
  return inferFakeQuantize(loc, adaptor, results);
}

INFER(BCEWithLogitsGradOp) {
  return inferBroadcast(loc, adaptor.getOperands(),
                        elementOf(adaptor.getDOutput()), results);
}

INFER(BCEGradOp) {
  return inferBroadcast(loc, adaptor.getOperands(),
                        elementOf(adaptor.getDOutput()), results);
}

// Infers the results of an optimizer op. `tensors` are the parameter, the
// gradient and the optimizer's state, which must have one shape. `scalars`,
// such as the learning rate, must have rank 0.
static LogicalResult inferUpdate(std::optional<Location> loc,
                                 ValueRange tensors, ValueRange scalars,
                                 Components &results) {
  if (failed(verifySameShape(loc, tensors)))
    return failure();
  for (Value scalar : scalars)
    if (scalar && !isScalar(scalar))
      return emitOptionalError(loc, "expected a scalar, found [",
                               shapeOf(scalar), "]");
  // The op returns a new value of every tensor except the gradient, operand 1.
  for (auto [index, tensor] : llvm::enumerate(tensors))
    if (index != 1)
      (void)infer(results, shapeOf(tensor), elementOf(tensor));
  return success();
}

INFER(IncrementOp) {
  return infer(results, shapeOf(adaptor.getCounter()),
               elementOf(adaptor.getCounter()));
}
INFER(SGDOp) {
  return inferUpdate(loc, adaptor.getOperands().take_front(2),
                     adaptor.getOperands().drop_front(2), results);
}
INFER(MomentumOp) {
  return inferUpdate(loc, adaptor.getOperands().take_front(3),
                     adaptor.getOperands().drop_front(3), results);
}
INFER(AdamOp) {
  return inferUpdate(loc, adaptor.getOperands().take_front(4),
                     adaptor.getOperands().drop_front(4), results);
}
INFER(AdagradOp) {
  return inferUpdate(loc, adaptor.getOperands().take_front(3),
                     adaptor.getOperands().drop_front(3), results);
}
INFER(RMSpropOp) {
  const size_t kept =
      1 + adaptor.getCentered() + !adaptor.getMomentum().isZero();
  if (adaptor.getState().size() != kept)
    return emitOptionalError(loc, "expected ", kept,
                             " tensors of state, found ",
                             adaptor.getState().size());
  return inferUpdate(loc, adaptor.getOperands().take_front(2 + kept),
                     adaptor.getOperands().drop_front(2 + kept), results);
}
