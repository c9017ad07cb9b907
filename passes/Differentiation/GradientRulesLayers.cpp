// Gradient rules of contractions, normalisation and pooling.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/GradientRules.h"

#include "compiler/Dialect/MPC/RunningVariance.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

namespace {
/// A matrix product alpha * op(lhs) op(rhs), where op may transpose.
struct ProductOperands {
  Value lhs, rhs;
  bool transA, transB;
};
} // namespace

// Returns the product that computes the gradient of A, for Y = op(A) op(B): dY
// op(B)^T, or op(B) dY^T if the forward product transposes A.
static ProductOperands gradOfLeft(const ProductOperands &forward, Value dy) {
  if (forward.transA)
    return {forward.rhs, dy, forward.transB, true};
  return {dy, forward.rhs, false, !forward.transB};
}

// Returns the product that computes the gradient of B, for Y = op(A) op(B):
// op(A)^T dY, or dY^T op(A) if the forward product transposes B.
static ProductOperands gradOfRight(const ProductOperands &forward, Value dy) {
  if (forward.transB)
    return {dy, forward.lhs, true, forward.transA};
  return {forward.lhs, dy, !forward.transA, false};
}

// Builds the product `p`. The last two axes of the result are those of `like`;
// the leading batch axes broadcast the batch axes of both factors.
static Value buildMatMul(GradientBuilder &g, Location loc,
                         const ProductOperands &p, Value like, double alpha) {
  auto type = getGradientType(like.getType());
  SmallVector<int64_t> shape = *broadcastShapes(shapeOf(p.lhs).drop_back(2),
                                                shapeOf(p.rhs).drop_back(2));
  llvm::append_range(shape, type.getShape().take_back(2));
  return MatMulOp::create(g.ops(), loc, type.clone(shape), p.lhs, p.rhs,
                          p.transA, p.transB, llvm::APFloat(alpha));
}

// Reshapes [..., m, k] to one matrix [... * m, k].
static Value flattenRows(GradientBuilder &g, Location loc, Value value) {
  auto type = typeOf(value);
  int64_t columns = type.getShape().back();
  int64_t rows = 1;
  for (int64_t extent : type.getShape().drop_back())
    rows *= extent;
  return g.reshape(loc, value, {rows, columns});
}

static void gradMatMul(MatMulOp op, GradientBuilder &g) {
  double alpha = op.getAlpha().convertToDouble();
  ProductOperands forward = {op.getLhs(), op.getRhs(), op.getTransA(),
                             op.getTransB()};
  if (g.needs(0))
    g.add(0, "dx",
          buildMatMul(g, g.at("dx"), gradOfLeft(forward, g.dy()), op.getLhs(),
                      alpha));
  if (!g.needs(1))
    return;
  Location loc = g.at("dw");
  Value dy = g.dy();
  // If a batch of matrices is multiplied by a single weight, flatten the batch:
  // one product computes the weight gradient, instead of a product per matrix
  // and a sum.
  if (op.getRhs().getType().getRank() == 2 && !op.getTransA()) {
    forward.lhs = flattenRows(g, loc, forward.lhs);
    dy = flattenRows(g, loc, dy);
  }
  g.add(1, "dw",
        buildMatMul(g, loc, gradOfRight(forward, dy), op.getRhs(), alpha));
}

static Value buildGemm(GradientBuilder &g, Location loc,
                       const ProductOperands &p, Value like,
                       llvm::APFloat alpha) {
  return GemmOp::create(g.ops(), loc, getGradientType(like.getType()), p.lhs,
                        p.rhs, Value(), alpha, llvm::APFloat(1.0), p.transA,
                        p.transB);
}

static void gradGemm(GemmOp op, GradientBuilder &g) {
  ProductOperands forward = {op.getA(), op.getB(), op.getTransA(),
                             op.getTransB()};
  if (g.needs(0))
    g.add(0, "dx",
          buildGemm(g, g.at("dx"), gradOfLeft(forward, g.dy()), op.getA(),
                    op.getAlpha()));
  if (g.needs(1))
    g.add(1, "dw",
          buildGemm(g, g.at("dw"), gradOfRight(forward, g.dy()), op.getB(),
                    op.getAlpha()));
  if (op.getC() && g.needs(2))
    g.add(2, "db", g.scale(g.at("db"), g.dy(), op.getBeta().convertToDouble()));
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

// Returns all axes of a tensor of rank `rank` except `axis`.
static SmallVector<int64_t> otherAxes(int64_t axis, int64_t rank) {
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis)
      axes.push_back(i);
  return axes;
}

// Sums a tensor over all axes except the channels.
static Value sumPerChannel(GradientBuilder &g, Location loc, Value value,
                           Layout layout) {
  auto type = typeOf(value);
  int64_t axis = getChannelAxis(layout, type.getRank());
  return ReduceSumOp::create(g.ops(), loc, type.clone({type.getDimSize(axis)}),
                             value, otherAxes(axis, type.getRank()), false);
}

static void gradConv(ConvOp op, GradientBuilder &g) {
  if (g.needs(0))
    g.add(0, "dx",
          ConvInputGradOp::create(
              g.ops(), g.at("dx"), getGradientType(op.getInput().getType()),
              g.dy(), op.getWeight(), op.getStridesAttr(), op.getPadsAttr(),
              op.getDilationsAttr(), op.getGroupAttr(), op.getLayoutAttr(),
              op.getFilterLayoutAttr()));
  if (g.needs(1))
    g.add(1, "dw",
          ConvWeightGradOp::create(
              g.ops(), g.at("dw"), getGradientType(op.getWeight().getType()),
              op.getInput(), g.dy(), op.getStridesAttr(), op.getPadsAttr(),
              op.getDilationsAttr(), op.getGroupAttr(), op.getLayoutAttr(),
              op.getFilterLayoutAttr()));
  if (op.getBias() && g.needs(2))
    g.add(2, "db", sumPerChannel(g, g.at("db"), g.dy(), op.getLayout()));
}

// ConvInputGrad, the input gradient of a convolution, is also the forward op of
// ConvTranspose. Its gradient with respect to dOutput is a convolution.
static void gradConvInputGrad(ConvInputGradOp op, GradientBuilder &g) {
  if (g.needs(0))
    g.add(0, "dx",
          ConvOp::create(
              g.ops(), g.at("dx"), getGradientType(op.getDOutput().getType()),
              g.dy(), op.getWeight(), Value(), op.getStridesAttr(),
              op.getPadsAttr(), op.getDilationsAttr(), op.getGroupAttr(),
              op.getLayoutAttr(), op.getFilterLayoutAttr()));
  if (g.needs(1))
    g.add(1, "dw",
          ConvWeightGradOp::create(
              g.ops(), g.at("dw"), getGradientType(op.getWeight().getType()),
              g.dy(), op.getDOutput(), op.getStridesAttr(), op.getPadsAttr(),
              op.getDilationsAttr(), op.getGroupAttr(), op.getLayoutAttr(),
              op.getFilterLayoutAttr()));
}

//===----------------------------------------------------------------------===//
// Normalisation
//===----------------------------------------------------------------------===//

// Warns if each channel has a single value: the value equals the mean, so the
// normalized value is always 0. PyTorch refuses to train such a model.
static void warnOfSingleValues(BatchNormOp op) {
  RankedTensorType type = op.getInput().getType();
  int64_t axis = getChannelAxis(op.getLayout(), type.getRank());
  if (!op->hasAttr(kOverRanksAttr) &&
      type.getNumElements() == type.getDimSize(axis))
    op.emitWarning("normalizes each channel over one value, so its result is "
                   "constant and the layers before it learn nothing; use a "
                   "larger --batch-size, or freeze these layers with --freeze");
}

static void gradBatchNorm(BatchNormOp op, GradientBuilder &g) {
  warnOfSingleValues(op);
  auto grad = BatchNormGradOp::create(
      g.ops(), g.at("dx"),
      TypeRange{getGradientType(op.getInput().getType()),
                getGradientType(op.getScale().getType()),
                getGradientType(op.getBias().getType())},
      g.dy(), op.getInput(), op.getScale(), op.getMean(), op.getInvStd(),
      op.getLayoutAttr());
  if (Attribute overRanks = op->getAttr(kOverRanksAttr))
    grad->setAttr(kOverRanksAttr, overRanks);
  StringRef suffixes[] = {"dx", "dscale", "dbias"};
  for (auto [index, suffix] : llvm::enumerate(suffixes))
    if (g.needs(index))
      g.add(index, suffix, grad->getResult(index));
}

// Reshapes a vector with one element per channel to broadcast against
// activations.
static Value alongChannels(GradientBuilder &g, Location loc, Value vector,
                           Layout layout, int64_t rank) {
  SmallVector<int64_t> shape(rank, 1);
  shape[getChannelAxis(layout, rank)] = typeOf(vector).getDimSize(0);
  return g.reshape(loc, vector, shape);
}

// The gradient of BatchNormalization with constant statistics: y = (x - mean) *
// inv_std * scale + bias.
static void gradBatchNormInference(BatchNormInferenceOp op,
                                   GradientBuilder &g) {
  Layout layout = op.getLayout();
  int64_t rank = op.getInput().getType().getRank();
  // dx and dscale each recompute 1 / sqrt(var + epsilon), so that the ops carry
  // the name of the gradient they belong to.
  auto inverseDeviation = [&](Location loc) -> Value {
    Value variance = op.getVar();
    Value epsilon =
        g.constant(loc, op.getEpsilon().convertToDouble(), variance);
    Type type = getGradientType(variance.getType());
    Value sum = AddOp::create(g.ops(), loc, type, variance, epsilon);
    Value root = SqrtOp::create(g.ops(), loc, type, sum);
    return ReciprocalOp::create(g.ops(), loc, type, root);
  };
  // The gradient of the input: dx = dy * inv_std * scale.
  if (g.needs(0)) {
    Location loc = g.at("dx");
    Value factor = g.mul(loc, inverseDeviation(loc), op.getScale());
    factor = alongChannels(g, loc, factor, layout, rank);
    g.add(0, "dx", g.mul(loc, g.dy(), factor));
  }
  // The gradients of scale and bias: dscale = sum(dy * (x - mean)) * inv_std,
  // dbias = sum(dy).
  if (g.needs(1)) {
    Location loc = g.at("dscale");
    Value mean = alongChannels(g, loc, op.getMean(), layout, rank);
    Value centred = g.sub(loc, op.getInput(), mean);
    Value sum = sumPerChannel(g, loc, g.mul(loc, g.dy(), centred), layout);
    g.add(1, "dscale", g.mul(loc, sum, inverseDeviation(loc)));
  }
  if (g.needs(2))
    g.add(2, "dbias", sumPerChannel(g, g.at("dbias"), g.dy(), layout));
}

// Adds the gradients of input and scale that come from output 0. A
// normalization may also have gradients from its statistics.
template <typename Grad, typename Op>
static void gradFromOutput(Op op, GradientBuilder &g, ValueRange statistics) {
  if (!g.dy())
    return;
  SmallVector<Value> operands = {g.dy(), op.getInput(), op.getScale()};
  llvm::append_range(operands, statistics);
  auto axes = g.ops().getNamedAttr("axes", op.getAxesAttr());
  auto grad = Grad::create(g.ops(), g.at("dx"),
                           TypeRange{getGradientType(op.getInput().getType()),
                                     getGradientType(op.getScale().getType())},
                           operands, axes);
  if (g.needs(0))
    g.add(0, "dx", grad.getDInput());
  if (g.needs(1))
    g.add(1, "dscale", grad.getDScale());
}

// Adds the input gradient that comes from the result inv = 1 / sqrt(mean(c * c)
// + epsilon), if the loss depends on inv: -inv^3 / n * c * dInverse. c is the
// centred input, n the number of elements per mean.
static void gradFromInverse(GradientBuilder &g, Value inverse, Value dInverse,
                            Value centred, double share) {
  if (!dInverse || !g.needs(0))
    return;
  Location loc = g.at("dx");
  Value cube = g.mul(loc, g.mul(loc, inverse, inverse), inverse);
  Value factor = g.scale(loc, g.mul(loc, dInverse, cube), -share);
  g.add(0, "dx", g.mul(loc, factor, centred));
}

// Returns 1 / n for a statistic over n elements.
static double getShare(Value input, Value statistic) {
  return static_cast<double>(typeOf(statistic).getNumElements()) /
         static_cast<double>(typeOf(input).getNumElements());
}

static void gradLayerNorm(LayerNormOp op, GradientBuilder &g) {
  gradFromOutput<LayerNormGradOp>(op, g, {op.getMean(), op.getInvStd()});
  if (g.dy() && op.getBias() && g.needs(2))
    g.add(2, "dbias", g.dy());
  double share = getShare(op.getInput(), op.getMean());
  if (Value dMean = g.dy(1); dMean && g.needs(0))
    g.add(0, "dx",
          ExpandOp::create(g.ops(), g.at("dx"),
                           getGradientType(op.getInput().getType()),
                           g.scale(g.at("dx"), dMean, share)));
  if (g.dy(2))
    gradFromInverse(g, op.getInvStd(), g.dy(2),
                    g.sub(g.at("dx"), op.getInput(), op.getMean()), share);
}

static void gradRMSNorm(RMSNormOp op, GradientBuilder &g) {
  gradFromOutput<RMSNormGradOp>(op, g, op.getInvRms());
  gradFromInverse(g, op.getInvRms(), g.dy(1), op.getInput(),
                  getShare(op.getInput(), op.getInvRms()));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

static void gradAttention(AttentionOp op, GradientBuilder &g) {
  SmallVector<Value> values = {op.getQuery(), op.getKey(), op.getValue()};
  llvm::append_range(values, op.getBiases());
  SmallVector<Type> types;
  for (Value value : values)
    types.push_back(getGradientType(value.getType()));
  auto grad = AttentionGradOp::create(
      g.ops(), g.at("dx"), types, g.dy(), op.getQuery(), op.getKey(),
      op.getValue(), op.getBiases(), op.getMask(), op.getSeed(),
      op.getMicroStep(), op.getScaleAttr(), op.getSoftcapAttr(),
      op.getCausalOffsetAttr(), op.getHiddenAttr(), op.getZeroEmptyRowsAttr(),
      op.getDropoutAttr(), op.getDropoutIdAttr());
  StringRef suffixes[] = {"dquery", "dkey", "dvalue", "dbias"};
  for (auto [index, gradient] : llvm::enumerate(grad.getResults()))
    if (g.needs(index))
      g.add(index, suffixes[std::min<size_t>(index, 3)], gradient);
}

//===----------------------------------------------------------------------===//
// Rotary embeddings
//===----------------------------------------------------------------------===//

static Value turn(GradientBuilder &g, Location loc, RotaryEmbeddingOp like,
                  Value input, Value cosine, Value sine, bool transposed) {
  return RotaryEmbeddingOp::create(
      g.ops(), loc, getGradientType(input.getType()), input, cosine, sine,
      like.getInterleaved(), transposed);
}

// Creates a rotary table that has `value` for every pair, with as many elements
// as a row of `like`.
static Value constantTable(GradientBuilder &g, Location loc, Value like,
                           double value) {
  auto type = getGradientType(like.getType())
                  .clone(ArrayRef<int64_t>(shapeOf(like).back()));
  return ConstantOp::create(
      g.ops(), loc,
      DenseElementsAttr::get(
          type, g.ops().getFloatAttr(type.getElementType(), value)));
}

// Adds the gradient of a rotary table, cosine or sine: dy * factor, summed over
// the two elements of each pair.
static void addToTable(GradientBuilder &g, RotaryEmbeddingOp op,
                       unsigned operand, StringRef suffix, Value factor) {
  Location loc = g.at(suffix);
  Value product = g.mul(loc, g.dy(), factor);
  SmallVector<int64_t> shape(shapeOf(product));
  int64_t pairs = op.getNumPairs(), axis = shape.size();
  shape.back() = 2 * pairs;
  if (shapeOf(product).back() != shape.back())
    product = SliceOp::create(g.ops(), loc, typeOf(product).clone(shape),
                              product, SmallVector<int64_t>(axis, 0), shape);
  shape.back() = op.getInterleaved() ? pairs : 2;
  shape.push_back(op.getInterleaved() ? 2 : pairs);
  product = g.reshape(loc, product, shape);
  if (!op.getInterleaved())
    --axis;
  shape.erase(shape.begin() + axis);
  g.add(operand, suffix,
        ReduceSumOp::create(g.ops(), loc, typeOf(product).clone(shape), product,
                            ArrayRef<int64_t>(axis), /*keepdims=*/false));
}

// The gradient of x rotates dy by the opposite angles. The gradient of the
// cosine table is dy * x; of the sine table, dy * (x rotated by 90 degrees).
static void gradRotaryEmbedding(RotaryEmbeddingOp op, GradientBuilder &g) {
  Value x = op.getInput();
  if (g.needs(0))
    g.add(0, "dx",
          turn(g, g.at("dx"), op, g.dy(), op.getCosine(), op.getSine(),
               !op.getTransposed()));
  if (g.needs(1))
    addToTable(g, op, 1, "dcosine", x);
  if (g.needs(2)) {
    Location loc = g.at("dsine");
    addToTable(g, op, 2, "dsine",
               turn(g, loc, op, x, constantTable(g, loc, op.getCosine(), 0),
                    constantTable(g, loc, op.getSine(), 1),
                    op.getTransposed()));
  }
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

static void gradMaxPool(MaxPoolOp op, GradientBuilder &g) {
  g.add(0, "dx",
        MaxPoolGradOp::create(
            g.ops(), g.at("dx"), getGradientType(op.getInput().getType()),
            g.dy(), op.getIndices(), op.getKernelAttr(), op.getStridesAttr(),
            op.getPadsAttr(), op.getCeilModeAttr(), op.getLayoutAttr(),
            op.getDilationsAttr()));
}

static void gradAveragePool(AveragePoolOp op, GradientBuilder &g) {
  g.add(0, "dx",
        AveragePoolGradOp::create(
            g.ops(), g.at("dx"), getGradientType(op.getInput().getType()),
            g.dy(), op.getKernelAttr(), op.getStridesAttr(), op.getPadsAttr(),
            op.getCeilModeAttr(), op.getLayoutAttr(),
            op.getCountIncludePadAttr(), op.getDilationsAttr()));
}

static void gradGlobalAveragePool(GlobalAveragePoolOp op, GradientBuilder &g) {
  g.add(0, "dx",
        GlobalAveragePoolGradOp::create(
            g.ops(), g.at("dx"), getGradientType(op.getInput().getType()),
            g.dy(), op.getLayoutAttr()));
}

void mpc::addLayerRules(GradientRules &rules) {
  rules.add(gradMatMul);
  rules.add(gradGemm);
  rules.add(gradConv);
  rules.add(gradConvInputGrad);
  // {3, 4}: running mean and variance are constants. Statistics that the op
  // returns (results 1 to 4) cannot be differentiated.
  rules.add(gradBatchNorm, {3, 4}, /*opaqueResults=*/{1, 2, 3, 4});
  rules.add(gradBatchNormInference, {3, 4});
  rules.add(gradLayerNorm);
  rules.add(gradRMSNorm);
  rules.add(gradAttention);
  rules.add(gradRotaryEmbedding);
  rules.add(gradMaxPool);
  rules.add(gradAveragePool);
  rules.add(gradGlobalAveragePool);
}
