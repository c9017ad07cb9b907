// Sums of convolutions and their gradients, element by element.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/ContractionHero.h"
#include "passes/Codegen/Window.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

namespace {
/// x (input) and y (output) are activations, w weights (out, in / group, taps).
class ConvolutionHero : public ContractionHero {
public:
  template <typename OpTy>
  ConvolutionHero(KernelContext &context, OpTy op, Value x, Value w, Value y)
      : ContractionHero(context, op), x(x), w(w), y(y),
        channelsLast(op.getLayout() == "NHWC"), input(shapeOf(x), channelsLast),
        output(shapeOf(y), channelsLast) {
    ArrayRef<int64_t> weight = shapeOf(w);
    outPerGroup = output.channels / static_cast<int64_t>(op.getGroup());
    inPerGroup = weight[1];
    batch = shapeOf(x).front();
    size_t rank = weight.size() - 2;
    for (size_t i = 0; i < rank; ++i)
      axes.push_back({input.spatial[i], output.spatial[i], weight[i + 2],
                      op.getStrides()[i], op.getDilations()[i], op.getPads()[i],
                      op.getPads()[i + rank]});
    weightStrides.assign(weight.size(), 1);
    for (size_t axis = weight.size(); axis-- > 1;)
      weightStrides[axis - 1] = weightStrides[axis] * weight[axis];
  }

protected:
  /// A position of the result where it is activations.
  struct Position {
    Value batch;
    SmallVector<Value> spatial;
    SmallVector<Value> channels;
  };

  /// Channels last: several channels share a position. Channels first: the
  /// column is the last spatial index.
  ChunkShape getActivationShape() const { return {1, channelsLast ? 4 : 1}; }
  Position getPosition(const Activations &result, Value row, Chunk chunk);

  Value offset(const Activations &of, Value batchIndex, Value channel,
               ValueRange spatial) {
    Value start = addIndex(b, mulIndex(b, batchIndex, of.batchStride),
                           mulIndex(b, channel, of.channelStride));
    return addIndex(b, start, linearize(b, spatial, of.spatialStrides));
  }
  Value weightOffset(Value out, Value in, ValueRange taps) {
    SmallVector<Value> indices = {out, in};
    llvm::append_range(indices, taps);
    return linearize(b, indices, weightStrides);
  }
  Value divide(Value value, int64_t by) {
    return arith::DivUIOp::create(b, value, createIndex(b, by));
  }
  Value remainder(Value value, int64_t by) {
    return arith::RemUIOp::create(b, value, createIndex(b, by));
  }
  Bounds upTo(int64_t size) {
    return {createIndex(b, 0), createIndex(b, size)};
  }

  Value x, w, y;
  bool channelsLast;
  Activations input, output;
  SmallVector<WindowAxis> axes;
  SmallVector<int64_t> weightStrides;
  int64_t inPerGroup, outPerGroup, batch;
};

class ForwardHero : public ConvolutionHero {
public:
  using ConvolutionHero::ConvolutionHero;
  ChunkShape getChunkShape() override { return getActivationShape(); }
  SmallVector<Value> emit(Value row, Chunk chunk) override;
};

class InputGradHero : public ConvolutionHero {
public:
  using ConvolutionHero::ConvolutionHero;
  ChunkShape getChunkShape() override { return getActivationShape(); }
  SmallVector<Value> emit(Value row, Chunk chunk) override;
};

class WeightGradHero : public ConvolutionHero {
public:
  using ConvolutionHero::ConvolutionHero;
  ChunkShape getChunkShape() override { return {1, 1}; }
  SmallVector<Value> emit(Value row, Chunk chunk) override;
};
} // namespace

ConvolutionHero::Position
ConvolutionHero::getPosition(const Activations &result, Value row,
                             Chunk chunk) {
  SmallVector<int64_t> sizes = {1};
  if (!channelsLast)
    sizes.push_back(result.channels);
  size_t rowSpatial = result.spatial.size() - (channelsLast ? 0 : 1);
  sizes.append(result.spatial.begin(), result.spatial.begin() + rowSpatial);
  SmallVector<Value> parts = splitIndex(b, row, sizes);
  Position at;
  at.batch = parts[0];
  at.spatial.assign(parts.begin() + (channelsLast ? 1 : 2), parts.end());
  if (channelsLast) {
    for (int64_t i = 0; i < chunk.count; ++i)
      at.channels.push_back(addIndex(b, chunk.index, i));
  } else {
    at.channels.push_back(parts[1]);
    at.spatial.push_back(chunk.index);
  }
  return at;
}

// y[out] = sum over taps and the group's input channels of x[in] * w.
SmallVector<Value> ForwardHero::emit(Value row, Chunk chunk) {
  Position at = getPosition(output, row, chunk);
  SmallVector<Bounds> bounds;
  for (auto [axis, out] : llvm::zip_equal(axes, at.spatial))
    bounds.push_back(getTaps(b, axis, out));
  bounds.push_back(upTo(inPerGroup));
  SmallVector<Value> init(at.channels.size(), zeros(1));
  return emitNest(b, bounds, init, [&](ValueRange indices, ValueRange sums) {
    ValueRange taps = indices.drop_back();
    Value channel = indices.back();
    SmallVector<Value> in;
    for (size_t i = 0; i < axes.size(); ++i)
      in.push_back(getInput(b, axes[i], at.spatial[i], taps[i]));
    Carried next;
    for (auto [out, sum] : llvm::zip_equal(at.channels, sums)) {
      Value first = mulIndex(b, divide(out, outPerGroup), inPerGroup);
      Value from = offset(input, at.batch, addIndex(b, first, channel), in);
      next.push_back(multiplyAdd(
          load(x, from), load(w, weightOffset(out, channel, taps)), sum));
    }
    return next;
  });
}

// dx[in] = sum over taps and the group's output channels of dy[out] * w, where
// an output reads `in` at that tap.
SmallVector<Value> InputGradHero::emit(Value row, Chunk chunk) {
  Position at = getPosition(input, row, chunk);
  SmallVector<Bounds> bounds;
  for (const WindowAxis &axis : axes)
    bounds.push_back(upTo(axis.taps));
  SmallVector<Value> init(at.channels.size(), zeros(1));
  return emitNest(b, bounds, init, [&](ValueRange taps, ValueRange sums) {
    SmallVector<Value> out;
    Value exists;
    for (size_t i = 0; i < axes.size(); ++i) {
      Writer writer = getWriter(b, axes[i], at.spatial[i], taps[i]);
      out.push_back(writer.output);
      exists = exists ? Value(arith::AndIOp::create(b, exists, writer.exists))
                      : writer.exists;
    }
    return emitIf(b, exists, sums, [&] {
      return emitLoop(
          b, createIndex(b, 0), createIndex(b, outPerGroup), 1, sums,
          [&](Value channel, ValueRange inner) {
            Carried next;
            for (auto [in, sum] : llvm::zip_equal(at.channels, inner)) {
              Value first = mulIndex(b, divide(in, inPerGroup), outPerGroup);
              Value from = addIndex(b, first, channel);
              Value weight =
                  weightOffset(from, remainder(in, inPerGroup), taps);
              next.push_back(
                  multiplyAdd(load(y, offset(output, at.batch, from, out)),
                              load(w, weight), sum));
            }
            return next;
          });
    });
  });
}

// dw[out, in, taps] = sum over the batch and the positions of dy[out] * x[in].
SmallVector<Value> WeightGradHero::emit(Value row, Chunk chunk) {
  SmallVector<int64_t> sizes = {inPerGroup};
  for (const WindowAxis &axis : axes)
    sizes.push_back(axis.taps);
  SmallVector<Value> column = splitIndex(b, chunk.index, sizes);
  Value first = mulIndex(b, divide(row, outPerGroup), inPerGroup);
  Value channel = addIndex(b, first, column[0]);
  ArrayRef<Value> taps = ArrayRef(column).drop_front();
  SmallVector<Bounds> bounds = {upTo(batch)};
  for (auto [axis, tap] : llvm::zip_equal(axes, taps))
    bounds.push_back(getOutputs(b, axis, tap));
  return emitNest(
      b, bounds, {zeros(1)}, [&](ValueRange indices, ValueRange sum) {
        ValueRange out = indices.drop_front();
        SmallVector<Value> in;
        for (size_t i = 0; i < axes.size(); ++i)
          in.push_back(getInput(b, axes[i], out[i], taps[i]));
        Value dy = load(y, offset(output, indices[0], row, out));
        Value value = load(x, offset(input, indices[0], channel, in));
        return Carried{multiplyAdd(value, dy, sum[0])};
      });
}

std::unique_ptr<ContractionHero>
codegen::createConvolutionHero(KernelContext &context, Operation *op) {
  if (auto conv = dyn_cast<ConvOp>(op))
    return std::make_unique<ForwardHero>(context, conv, conv.getInput(),
                                         conv.getWeight(), conv.getOutput());
  if (auto grad = dyn_cast<ConvInputGradOp>(op))
    return std::make_unique<InputGradHero>(context, grad, grad.getDInput(),
                                           grad.getWeight(), grad.getDOutput());
  auto grad = cast<ConvWeightGradOp>(op);
  return std::make_unique<WeightGradHero>(context, grad, grad.getInput(),
                                          grad.getDWeight(), grad.getDOutput());
}
