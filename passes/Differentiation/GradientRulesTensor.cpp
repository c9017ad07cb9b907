// Gradient rules of data movement, reductions, softmax and losses.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/GradientRules.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

static void gradReshape(ReshapeOp op, GradientBuilder &g) {
  g.add(0, "dx",
        g.reshape(g.at("dx"), g.dy(), op.getInput().getType().getShape()));
}

static void gradTranspose(TransposeOp op, GradientBuilder &g) {
  SmallVector<int64_t> inverse(op.getPerm().size());
  for (auto [to, from] : llvm::enumerate(op.getPerm()))
    inverse[from] = to;
  g.add(0, "dx",
        TransposeOp::create(g.ops(), g.at("dx"),
                            getGradientType(op.getInput().getType()), g.dy(),
                            inverse));
}

// GradientBuilder::add sums dy over the axes that the op expands.
static void gradExpand(ExpandOp op, GradientBuilder &g) {
  g.add(0, "dx", g.dy());
}

static Value expandTo(GradientBuilder &g, Location loc, Value value,
                      ArrayRef<int64_t> shape) {
  auto type = typeOf(value).clone(shape);
  if (type == value.getType())
    return value;
  return ExpandOp::create(g.ops(), loc, type, value);
}

static void gradSumToSize(SumToSizeOp op, GradientBuilder &g) {
  g.add(0, "dx",
        expandTo(g, g.at("dx"), g.dy(), op.getInput().getType().getShape()));
}

// The gradient of each input of the concat is a slice of dy.
static void gradConcat(ConcatOp op, GradientBuilder &g) {
  int64_t axis = op.getAxis();
  SmallVector<int64_t> offsets(typeOf(g.dy()).getRank(), 0);
  for (auto [index, input] : llvm::enumerate(op.getInputs())) {
    ArrayRef<int64_t> sizes = shapeOf(input);
    std::string suffix = "dx" + std::to_string(index);
    if (g.needs(index))
      g.add(index, suffix,
            SliceOp::create(g.ops(), g.at(suffix), typeOf(g.dy()).clone(sizes),
                            g.dy(), offsets, sizes));
    offsets[axis] += sizes[axis];
  }
}

static void gradSlice(SliceOp op, GradientBuilder &g) {
  if (isDense(op.getStrides()))
    return g.addBox(0, "dx", g.dy(), op.getOffsets());
  auto type = cast<RankedTensorType>(getGradientType(op.getInput().getType()));
  g.add(0, "dx",
        PadOp::create(g.ops(), g.at("dx"), type, g.dy(), op.getOffsets(),
                      type.getShape(), APFloat(0.0), op.getStrides()));
}

static void gradPad(PadOp op, GradientBuilder &g) {
  ArrayRef<int64_t> sizes = op.getInput().getType().getShape();
  g.add(0, "dx",
        SliceOp::create(g.ops(), g.at("dx"), typeOf(g.dy()).clone(sizes),
                        g.dy(), op.getOffsets(), sizes, op.getStrides()));
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

// Reshapes `value`, the result of a reduction over `axes`, so that the reduced
// axes have size 1 and `value` broadcasts to the input.
static Value withReducedAxes(GradientBuilder &g, Location loc, Value value,
                             RankedTensorType input, ArrayRef<int64_t> axes) {
  SmallVector<int64_t> shape(input.getShape());
  for (int64_t axis : axes)
    shape[axis] = 1;
  return g.reshape(loc, value, shape);
}

static void gradReduceSum(ReduceSumOp op, GradientBuilder &g) {
  Location loc = g.at("dx");
  auto input = op.getInput().getType();
  Value dy = withReducedAxes(g, loc, g.dy(), input, op.getAxes());
  g.add(0, "dx", expandTo(g, loc, dy, input.getShape()));
}

static void gradReduceMean(ReduceMeanOp op, GradientBuilder &g) {
  Location loc = g.at("dx");
  auto input = op.getInput().getType();
  int64_t count = 1;
  for (int64_t axis : op.getAxes())
    count *= input.getDimSize(axis);
  Value dy = withReducedAxes(g, loc, g.dy(), input, op.getAxes());
  dy = expandTo(g, loc, dy, input.getShape());
  Value divisor = g.constant(loc, static_cast<double>(count), dy);
  g.add(0, "dx", DivOp::create(g.ops(), loc, dy.getType(), dy, divisor));
}

// All elements of the input equal to the maximum y share dy evenly. m = 1 -
// |sign(x - y)| is 1 for these elements, else 0.
static void gradReduceMax(ReduceMaxOp op, GradientBuilder &g) {
  Location loc = g.at("dx");
  auto input = op.getInput().getType();
  OpBuilder &b = g.ops();
  Value y = withReducedAxes(g, loc, op.getOutput(), input, op.getAxes());
  Value dy = withReducedAxes(g, loc, g.dy(), input, op.getAxes());
  Value difference = g.sub(loc, op.getInput(), y);
  Value sign = SignOp::create(b, loc, difference.getType(), difference);
  Value other = AbsOp::create(b, loc, sign.getType(), sign);
  Value mask = g.sub(loc, g.constant(loc, 1.0, other), other);
  mask = expandTo(g, loc, mask, input.getShape());
  auto countType = typeOf(dy).clone(elementOf(mask));
  Value count =
      ReduceSumOp::create(b, loc, countType, mask, op.getAxes(), true);
  Value share = DivOp::create(b, loc, dy.getType(), dy, count);
  g.add(0, "dx", g.mul(loc, share, mask));
}

// dx[i] = dy * the product of all other elements: y / x[i] if no element is 0.
// Let p be the product with zeros replaced by 1. If one element is 0, the slope
// of the zero is p, and the slope of other elements is 0. With two zeros, all
// slopes are 0.
static void gradReduceProd(ReduceProdOp op, GradientBuilder &g) {
  Location loc = g.at("dx");
  OpBuilder &b = g.ops();
  Value x = op.getInput();
  auto type = op.getInput().getType();
  Value zero = g.constant(loc, 0.0, x), one = g.constant(loc, 1.0, x);
  Value isZero = EqualOp::create(b, loc, x, zero);
  Value filled = SelectOp::create(b, loc, type, isZero, one, x);
  Value zeros = SelectOp::create(b, loc, type, isZero, one, zero);
  Value dy = withReducedAxes(g, loc, g.dy(), type, op.getAxes());
  auto reduced = typeOf(dy).clone(type.getElementType());
  Value product =
      ReduceProdOp::create(b, loc, reduced, filled, op.getAxes(), true);
  Value count = ReduceSumOp::create(b, loc, reduced, zeros, op.getAxes(), true);
  // The slope of an element is 0 if any other element is zero.
  Value others = g.sub(loc, expandTo(g, loc, count, type.getShape()), zeros);
  Value isFree = EqualOp::create(b, loc, others, zero);
  Value rest = DivOp::create(b, loc, type, product, filled);
  Value slope = SelectOp::create(b, loc, type, isFree, rest, zero);
  g.add(0, "dx", g.mul(loc, dy, slope));
}

// x[i] contributes to y[i] and to all later sums. So dx[i] is the sum of dy[i]
// and all later dy.
static void gradCumSum(CumSumOp op, GradientBuilder &g) {
  g.add(0, "dx",
        CumSumOp::create(g.ops(), g.at("dx"),
                         getGradientType(op.getInput().getType()), g.dy(),
                         op.getAxis(), op.getExclusive(), !op.getReverse()));
}

//===----------------------------------------------------------------------===//
// Softmax and losses
//===----------------------------------------------------------------------===//

static void gradSoftmax(SoftmaxOp op, GradientBuilder &g) {
  g.add(0, "dx",
        SoftmaxGradOp::create(g.ops(), g.at("dx"), g.dy().getType(), g.dy(),
                              op.getOutput(), op.getAxisAttr()));
}

static void gradLogSoftmax(LogSoftmaxOp op, GradientBuilder &g) {
  g.add(0, "dx",
        LogSoftmaxGradOp::create(g.ops(), g.at("dx"), g.dy().getType(), g.dy(),
                                 op.getOutput(), op.getAxisAttr()));
}

// Both results, the loss and the log-probabilities, pass a gradient to the
// scores.
static void gradSoftmaxCrossEntropyLoss(SoftmaxCrossEntropyLossOp op,
                                        GradientBuilder &g) {
  if (!g.needs(0))
    return;
  Type type = getGradientType(op.getScores().getType());
  if (Value dLoss = g.dy(0))
    g.add(0, "dx",
          SoftmaxCrossEntropyLossGradOp::create(
              g.ops(), g.at("dx"), type, dLoss, op.getLogProb(), op.getLabels(),
              op.getWeights(), op.getReductionAttr(), op.getIgnoreIndexAttr(),
              op.getLabelSmoothingAttr()));
  if (Value dLogProb = g.dy(1))
    g.add(0, "dx",
          LogSoftmaxGradOp::create(g.ops(), g.at("dx"), type, dLogProb,
                                   op.getLogProb(), /*axis=*/1));
}

static void gradNLLLoss(NLLLossOp op, GradientBuilder &g) {
  if (g.needs(0))
    g.add(0, "dx",
          NLLLossGradOp::create(
              g.ops(), g.at("dx"), getGradientType(op.getLogProb().getType()),
              g.dy(), op.getLabels(), op.getWeights(), op.getReductionAttr(),
              op.getIgnoreIndexAttr()));
}

void mpc::addTensorRules(GradientRules &rules) {
  rules.add(gradReshape);
  rules.add(gradTranspose);
  rules.add(gradExpand);
  rules.add(gradSumToSize);
  rules.add(gradConcat);
  rules.add(gradSlice);
  rules.add(gradPad);
  rules.add(gradReduceSum);
  rules.add(gradReduceMean);
  rules.add(gradReduceMax);
  rules.add(gradReduceProd);
  rules.add(gradCumSum);
  rules.add(gradSoftmax);
  rules.add(gradLogSoftmax);
  // Operand 2, the class weights, is a constant.
  rules.add(gradSoftmaxCrossEntropyLoss, {2});
  rules.add(gradNLLLoss, {2});
}
