// Decomposes normalizations, global pooling, gradient clipping and the
// finiteness test.
//
// Variance takes two passes, so that digits do not cancel: first the mean, then
// the mean of squared distances from the mean. On a GPU, where reading memory
// dominates, 16-bit images take one pass instead, in bands of rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Decompose.h"

#include "compiler/Dialect/MPC/RunningVariance.h"
#include "compiler/Dialect/MPC/Target.h"

using namespace mlir;
using namespace mpc;

namespace {
/// Helps to compute with a tensor of activations and vectors that have one
/// element per channel.
class Channels {
public:
  Channels(Value input, Layout layout, Emitter &e) : e(e) {
    ArrayRef<int64_t> shape = shapeOf(input);
    size_t axis = getChannelAxis(layout, shape.size());
    count = shape[axis];
    vectorShape = {count};
    vectorShape.append(shape.size() - 1 - axis, 1);
    for (size_t i = 0; i < shape.size(); ++i)
      if (i != axis)
        axes.push_back(i);
  }

  /// Reshapes a vector [channels] so that it broadcasts over the activations:
  /// to [channels, 1, 1] in NCHW.
  Value spread(Value vector) { return e.reshape(vector, vectorShape); }

  /// `sum` and `mean` reduce all axes except the channels. The result is a
  /// vector [channels].
  Value sum(Value value) {
    return e.reshape(e.reduce<ReduceSumOp>(value, axes), {count});
  }
  Value mean(Value value) {
    return e.reshape(e.reduce<ReduceMeanOp>(value, axes), {count});
  }

private:
  Emitter &e;
  int64_t count;
  SmallVector<int64_t> vectorShape, axes;
};
} // namespace

// Updates a running statistic: running * momentum + batch * share, in the
// element type of `result`.
static Value updateRunning(Value running, Value batch, double momentum,
                           double share, Value result, Emitter &e) {
  Value kept = e.emit<MulOp>(running, e.scalar(momentum));
  Value added = e.emit<MulOp>(batch, e.scalar(share));
  return e.emitAs<AddOp>(elementOf(result), kept, added);
}

// Returns 1 / sqrt(variance + epsilon).
static Value invStd(Value variance, const APFloat &epsilon, Emitter &e) {
  Value sum = e.emit<AddOp>(variance, e.scalar(epsilon.convertToDouble()));
  return e.emit<ReciprocalOp>(e.emit<SqrtOp>(sum));
}

// Casts `value` to the element type of `result`.
static Value castTo(Value result, Value value, Emitter &e) {
  Type element = elementOf(result);
  return element == elementOf(value) ? value
                                     : e.emitAs<amp::CastOp>(element, value);
}

// Returns (x - mean) * factor + bias, where factor = scale * inv_std.
static Value normalise(Channels &channels, Value x, Value mean, Value factor,
                       Value bias, Value result, Emitter &e) {
  Value centred = e.emit<SubOp>(x, channels.spread(mean));
  Value scaled = e.emit<MulOp>(centred, channels.spread(factor));
  return e.emitAs<AddOp>(elementOf(result), scaled, channels.spread(bias));
}

// Returns the number of elements per channel in the batch of one rank.
static int64_t countPerChannel(Value input, Value scale) {
  return typeOf(input).getNumElements() / shapeOf(scale)[0];
}

// Returns the factor that turns the variance of the batch (divided by n) into
// the variance for the running statistic: n / (n - 1) if the op wants an
// unbiased variance, otherwise 1. n is the number of elements per channel.
static double getVarianceCorrection(BatchNormOp op) {
  int64_t count = countPerChannel(op.getInput(), op.getScale());
  if (!op->hasAttr(kUnbiasedRunningVarAttr) || count < 2)
    return 1.0;
  return static_cast<double>(count) / static_cast<double>(count - 1);
}

namespace {
/// Moments of each channel, as vectors: the mean, and the variance divided by
/// n.
struct Moments {
  Value mean, variance;
};
} // namespace

// Computes mean and variance in two passes over all elements.
static Moments takeMoments(Channels &channels, Value x, Emitter &e) {
  Value mean = channels.mean(x);
  Value centred = e.emit<SubOp>(x, channels.spread(mean));
  return {mean, channels.mean(e.emit<MulOp>(centred, centred))};
}

/// The fewest pixels per band for which one pass pays. A band costs 40 bytes
/// per channel: three more kernels read and write its f32 moments. A second
/// pass would read 2 bytes per pixel and channel.
static constexpr int64_t kFewestPixels = 32;
/// The most pixels per band, because the error of one pass grows with the
/// number of pixels.
static constexpr int64_t kMostPixels = 4096;

// Returns the number of bands per image of `shape`, in NHWC: the fewest bands
// of equally many rows with at most kMostPixels pixels. nullopt if bands would
// have fewer than kFewestPixels pixels.
static std::optional<int64_t> countBands(ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> spatial = shape.drop_front().drop_back();
  int64_t row = ShapedType::getNumElements(spatial.drop_front());
  for (int64_t rows = spatial.front(); rows > 0; --rows) {
    if (spatial.front() % rows != 0 || rows * row > kMostPixels)
      continue;
    if (rows * row < kFewestPixels)
      return std::nullopt;
    return spatial.front() / rows;
  }
  return std::nullopt;
}

// True if mean and variance of `op` are computed in one pass over bands. Only
// for 16-bit images: f32 could lose digits.
static bool hasMomentsOfBands(BatchNormOp op) {
  RankedTensorType type = typeOf(op.getInput());
  return op.getLayout() == Layout::NHWC && type.getRank() > 2 &&
         type.getElementTypeBitWidth() == 16 && getTarget(op).isGPU() &&
         countBands(type.getShape());
}

// Computes mean and variance of NHWC images in one pass over bands of rows,
// then merges the results of all bands.
//
// The pass takes distances d from a pixel in the middle of each band; the
// variance of the band is mean(d * d) - mean(d)^2. Digits cancel if this pixel
// is far from the others. For n pixels, the relative error of the variance is
// up to n * 2^-22 if all other pixels are alike: 2^-10, an f16 rounding, for
// the largest band. For a pixel k standard deviations off, the error is k^2 *
// 2^-23. For comparison, rounding to bf16 changes x by 2^-9 of its value.
// Merging loses nothing: the total variance is the mean of the bands' variances
// plus the variance of the bands' means.
static Moments takeMomentsOfBands(Value x, Emitter &e) {
  // Reshape (N, H, ...) to (N * bands, H / bands, ...): each band is an image.
  SmallVector<int64_t> shape(shapeOf(x));
  int64_t bands = *countBands(shape);
  shape[0] *= bands;
  shape[1] /= bands;
  x = e.reshape(x, shape);
  RankedTensorType type = typeOf(x);
  auto axes = llvm::to_vector(llvm::seq<int64_t>(1, int64_t(shape.size()) - 1));
  SmallVector<int64_t> middle(shape.size(), 0), sizes(shape.size(), 1);
  for (int64_t axis : axes)
    middle[axis] = shape[axis] / 2;
  sizes.front() = shape.front();
  sizes.back() = shape.back();
  Value pixel = e.finish(SliceOp::create(e.builder, type.clone(sizes), x,
                                         middle, sizes, ArrayRef<int64_t>()));
  // One kernel reads all elements and computes both means of the distances.
  Value distance = e.emit<SubOp>(x, pixel);
  Value first = e.reduce<ReduceMeanOp>(distance, axes);
  Value second =
      e.reduce<ReduceMeanOp>(e.emit<MulOp>(distance, distance), axes);
  // Compute mean and variance of each band, then of all bands together.
  Value means = e.emit<AddOp>(first, pixel);
  Value variances = e.emit<MaximumOp>(
      e.emit<SubOp>(second, e.emit<MulOp>(first, first)), e.scalar(0.0));
  Value mean = e.reduce<ReduceMeanOp>(means, {0});
  Value apart = e.emit<SubOp>(means, mean);
  Value variance = e.reduce<ReduceMeanOp>(
      e.emit<AddOp>(variances, e.emit<MulOp>(apart, apart)), {0});
  return {e.reshape(mean, shape.back()), e.reshape(variance, shape.back())};
}

//===----------------------------------------------------------------------===//
// Statistics over ranks
//===----------------------------------------------------------------------===//

static bool isOverRanks(Operation *norm) {
  return norm->hasAttr(kOverRanksAttr);
}

// Reduces `values` over the ranks, in one message.
static SmallVector<Value> reduceOverRanks(Reduce kind, ArrayRef<Value> values,
                                          Emitter &e) {
  auto op = AllReduceOp::create(e.builder, TypeRange(ValueRange(values)),
                                ReduceAttr::get(e.builder.getContext(), kind),
                                values, /*owners=*/ArrayAttr(),
                                /*rows=*/UnitAttr());
  e.finish(op);
  return llvm::to_vector_of<Value>(op.getOutputs());
}

// Returns the moments of the batches of all ranks, from those of each rank. The
// variance is the mean of the ranks' variances plus the variance of the ranks'
// means. So no digits cancel, as in mean(x * x) - mean * mean. One rank gets
// its own moments, to the bit.
static Moments takeMomentsOfRanks(Moments own, Emitter &e) {
  Value mean = reduceOverRanks(Reduce::Mean, {own.mean}, e).front();
  Value apart = e.emit<SubOp>(own.mean, mean);
  Value terms = e.emit<AddOp>(own.variance, e.emit<MulOp>(apart, apart));
  return {mean, reduceOverRanks(Reduce::Mean, {terms}, e).front()};
}

// Like getVarianceCorrection, as a value: the number of ranks is known when the
// step runs. All normalizations of a step share the reduction, after CSE.
static Value takeVarianceCorrection(BatchNormOp op, Emitter &e) {
  Value ranks = reduceOverRanks(Reduce::Sum, {e.scalar(1.0)}, e).front();
  int64_t own = countPerChannel(op.getInput(), op.getScale());
  Value count = e.emit<MulOp>(ranks, e.scalar(static_cast<double>(own)));
  // A single element has no unbiased variance.
  Value others =
      e.emit<MaximumOp>(e.emit<SubOp>(count, e.scalar(1.0)), e.scalar(1.0));
  return e.emit<DivOp>(count, others);
}

//===----------------------------------------------------------------------===//
// Batch normalization
//===----------------------------------------------------------------------===//

SmallVector<Value> mpc::decompose(BatchNormOp op, Emitter &e) {
  Value x = op.getInput();
  Channels channels(x, op.getLayout(), e);
  Moments moments = hasMomentsOfBands(op) ? takeMomentsOfBands(x, e)
                                          : takeMoments(channels, x, e);
  bool isCorrectedByRanks =
      isOverRanks(op) && op->hasAttr(kUnbiasedRunningVarAttr);
  if (isOverRanks(op))
    moments = takeMomentsOfRanks(moments, e);
  auto [mean, variance] = moments;
  Value unbiased = isCorrectedByRanks
                       ? e.emit<MulOp>(variance, takeVarianceCorrection(op, e))
                       : variance;
  double correction = isCorrectedByRanks ? 1.0 : getVarianceCorrection(op);
  Value inv = invStd(variance, op.getEpsilon(), e);
  Value factor = e.emit<MulOp>(op.getScale(), inv);
  double momentum = op.getMomentum().convertToDouble();
  double share = 1.0 - momentum;
  return {normalise(channels, x, mean, factor, op.getBias(), op.getOutput(), e),
          castTo(op.getMean(), mean, e), castTo(op.getInvStd(), inv, e),
          updateRunning(op.getRunningMean(), mean, momentum, share,
                        op.getNewRunningMean(), e),
          updateRunning(op.getRunningVar(), unbiased, momentum,
                        share * correction, op.getNewRunningVar(), e)};
}

SmallVector<Value> mpc::decompose(BatchNormInferenceOp op, Emitter &e) {
  Channels channels(op.getInput(), op.getLayout(), e);
  Value inv = invStd(op.getVar(), op.getEpsilon(), e);
  Value factor = e.emit<MulOp>(op.getScale(), inv);
  return {normalise(channels, op.getInput(), op.getMean(), factor, op.getBias(),
                    op.getOutput(), e)};
}

// dx = scale * inv_std * (dy - mean(dy) - xhat * mean(dy * xhat)), where xhat
// is the normalized input
SmallVector<Value> mpc::decompose(BatchNormGradOp op, Emitter &e) {
  Value x = op.getInput(), dy = op.getDOutput();
  Channels channels(x, op.getLayout(), e);
  Value centred = e.emit<SubOp>(x, channels.spread(op.getMean()));
  Value xhat = e.emit<MulOp>(centred, channels.spread(op.getInvStd()));
  // The gradients of bias and scale are sums over pixels; the means below are
  // the same sums divided by n.
  Value dBias = channels.sum(dy);
  Value dScale = channels.sum(e.emit<MulOp>(dy, xhat));
  Value perElement =
      e.scalar(1.0 / static_cast<double>(countPerChannel(x, op.getScale())));
  SmallVector<Value> means = {e.emit<MulOp>(dBias, perElement),
                              e.emit<MulOp>(dScale, perElement)};
  if (isOverRanks(op))
    means = reduceOverRanks(Reduce::Mean, means, e);
  Value meanDy = means[0], meanDyXhat = means[1];
  Value factor = e.emit<MulOp>(op.getScale(), op.getInvStd());
  Value parallel = e.emit<MulOp>(xhat, channels.spread(meanDyXhat));
  // dy - mean(dy) - xhat * mean(dy * xhat)
  Value rest =
      e.emit<SubOp>(e.emit<SubOp>(dy, channels.spread(meanDy)), parallel);
  Value dx =
      e.emitAs<MulOp>(elementOf(op.getDInput()), rest, channels.spread(factor));
  return {dx, castTo(op.getDScale(), dScale, e),
          castTo(op.getDBias(), dBias, e)};
}

//===----------------------------------------------------------------------===//
// Normalization of each sample
//===----------------------------------------------------------------------===//

// Returns x * factor * scale + bias. `bias` may be null.
static Value applyScale(Value x, Value factor, Value scale, Value bias,
                        Value result, Emitter &e) {
  Value normal = e.emit<MulOp>(x, factor);
  if (!bias)
    return e.emitAs<MulOp>(elementOf(result), normal, scale);
  return e.emitAs<AddOp>(elementOf(result), e.emit<MulOp>(normal, scale), bias);
}

SmallVector<Value> mpc::decompose(LayerNormOp op, Emitter &e) {
  Value x = op.getInput();
  Value mean = e.reduce<ReduceMeanOp>(x, op.getAxes());
  Value centred = e.emit<SubOp>(x, mean);
  Value variance =
      e.reduce<ReduceMeanOp>(e.emit<MulOp>(centred, centred), op.getAxes());
  Value inv = invStd(variance, op.getEpsilon(), e);
  Value y =
      applyScale(centred, inv, op.getScale(), op.getBias(), op.getOutput(), e);
  return {y, castTo(op.getMean(), mean, e), castTo(op.getInvStd(), inv, e)};
}

SmallVector<Value> mpc::decompose(RMSNormOp op, Emitter &e) {
  Value x = op.getInput();
  Value square = e.reduce<ReduceMeanOp>(e.emit<MulOp>(x, x), op.getAxes());
  Value inv = invStd(square, op.getEpsilon(), e);
  Value y = applyScale(x, inv, op.getScale(), Value(), op.getOutput(), e);
  return {y, castTo(op.getInvRms(), inv, e)};
}

// Sums `terms`, which have the shape of the input, to the shape of the scale's
// gradient `dScale`.
static Value sumToScale(Value terms, Value dScale, Emitter &e) {
  ArrayRef<int64_t> whole = shapeOf(terms), shape = shapeOf(dScale);
  size_t missing = whole.size() - shape.size();
  SmallVector<int64_t> axes;
  for (size_t i = 0; i < whole.size(); ++i)
    if (i < missing || shape[i - missing] != whole[i])
      axes.push_back(i);
  Value sum = axes.empty() ? terms : e.reduce<ReduceSumOp>(terms, axes);
  return castTo(dScale, e.reshape(sum, shape), e);
}

// Returns the gradient of the input: inv * (g - xhat * mean(g * xhat) -
// mean(g)) with g = dy * scale. inv is 1 / deviation, xhat the normalized
// input. RMS normalization does not subtract the mean, and so has no last term.
static Value pullBack(Value dy, Value xhat, Value scale, Value inv,
                      bool isCentred, ArrayRef<int64_t> axes, Value dInput,
                      Emitter &e) {
  Value g = e.emit<MulOp>(dy, scale);
  Value share = e.reduce<ReduceMeanOp>(e.emit<MulOp>(g, xhat), axes);
  Value rest = e.emit<SubOp>(g, e.emit<MulOp>(xhat, share));
  if (isCentred)
    rest = e.emit<SubOp>(rest, e.reduce<ReduceMeanOp>(g, axes));
  return e.emitAs<MulOp>(elementOf(dInput), rest, inv);
}

SmallVector<Value> mpc::decompose(LayerNormGradOp op, Emitter &e) {
  Value dy = op.getDOutput();
  Value centred = e.emit<SubOp>(op.getInput(), op.getMean());
  Value xhat = e.emit<MulOp>(centred, op.getInvStd());
  return {pullBack(dy, xhat, op.getScale(), op.getInvStd(), /*isCentred=*/true,
                   op.getAxes(), op.getDInput(), e),
          sumToScale(e.emit<MulOp>(dy, xhat), op.getDScale(), e)};
}

SmallVector<Value> mpc::decompose(RMSNormGradOp op, Emitter &e) {
  Value dy = op.getDOutput();
  Value xhat = e.emit<MulOp>(op.getInput(), op.getInvRms());
  return {pullBack(dy, xhat, op.getScale(), op.getInvRms(),
                   /*isCentred=*/false, op.getAxes(), op.getDInput(), e),
          sumToScale(e.emit<MulOp>(dy, xhat), op.getDScale(), e)};
}

//===----------------------------------------------------------------------===//
// Global pooling
//===----------------------------------------------------------------------===//

// Returns the spatial axes of activations: [2, 3] in NCHW, [1, 2] in NHWC.
static SmallVector<int64_t> spatialAxes(int64_t rank, Layout layout) {
  int64_t first = layout == Layout::NHWC ? 1 : 2;
  return llvm::to_vector(llvm::seq<int64_t>(first, first + rank - 2));
}

SmallVector<Value> mpc::decompose(GlobalAveragePoolOp op, Emitter &e) {
  auto axes = spatialAxes(op.getType().getRank(), op.getLayout());
  Value mean = e.reduce<ReduceMeanOp>(op.getInput(), axes);
  return {castTo(op.getOutput(), mean, e)};
}

SmallVector<Value> mpc::decompose(GlobalAveragePoolGradOp op, Emitter &e) {
  RankedTensorType type = op.getType();
  int64_t window = 1;
  for (int64_t axis : spatialAxes(type.getRank(), op.getLayout()))
    window *= type.getShape()[axis];
  Value share = e.emit<MulOp>(op.getDOutput(),
                              e.scalar(1.0 / static_cast<double>(window)));
  return {e.expand(share, type)};
}

//===----------------------------------------------------------------------===//
// Global norm and finiteness
//===----------------------------------------------------------------------===//

SmallVector<Value> mpc::decompose(ClipGradNormOp op, Emitter &e) {
  // The norm of all gradients together: the square root of the sum of all
  // squares.
  Value total;
  for (Value grad : op.getGrads()) {
    Value sum = e.reduceAll<ReduceSumOp>(e.emit<MulOp>(grad, grad));
    total = total ? e.emit<AddOp>(total, sum) : sum;
  }
  Value norm = e.emit<SqrtOp>(total ? total : e.scalar(0.0));
  // As in PyTorch, min(maxNorm / (norm + 1e-6), 1): gradients only shrink.
  SmallVector<Value> results;
  Value factor;
  if (op.getMaxNorm()) {
    Value bound = e.scalar(op.getMaxNorm()->convertToDouble());
    Value ratio = e.emit<DivOp>(bound, e.emit<AddOp>(norm, e.scalar(1e-6)));
    factor = e.emit<MinimumOp>(ratio, e.scalar(1.0));
  }
  for (auto [grad, clipped] : llvm::zip(op.getGrads(), op.getClipped()))
    results.push_back(factor ? e.emitAs<MulOp>(elementOf(clipped), grad, factor)
                             : castTo(clipped, grad, e));
  results.push_back(castTo(op.getNorm(), norm, e));
  return results;
}

SmallVector<Value> mpc::decompose(amp::AllFiniteOp op, Emitter &e) {
  Value worst = e.scalar(0.0);
  for (Value input : op.getInputs()) {
    Value bad = e.reduceAll<ReduceMaxOp>(e.emit<amp::NonFiniteOp>(input));
    worst = e.emit<MaximumOp>(worst, bad);
  }
  return {e.isNonZero(e.emit<SubOp>(e.scalar(1.0), worst))};
}
