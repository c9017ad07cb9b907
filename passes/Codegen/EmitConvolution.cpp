// Sums of convolutions and their gradients, element by element.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/ContractionHero.h"
#include "passes/Codegen/Window.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

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
  void emitActivations(
      const Activations &result, Value row, Sink sink,
      llvm::function_ref<SmallVector<Value>(const Position &)> sums);
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
  void emitRow(Value row, Sink sink) override;

private:
  SmallVector<Value> sum(const Position &at);
};

class InputGradHero : public ConvolutionHero {
public:
  using ConvolutionHero::ConvolutionHero;
  void emitRow(Value row, Sink sink) override;

private:
  SmallVector<Value> sum(const Position &at);
};

class WeightGradHero : public ConvolutionHero {
public:
  using ConvolutionHero::ConvolutionHero;
  void emitRow(Value row, Sink sink) override;

private:
  void sumChannels(Value row, ValueRange taps, Sink sink);
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
      at.channels.push_back(chunk.getVector(b, i));
  } else {
    at.channels.push_back(parts[1]);
    at.spatial.push_back(chunk.index);
  }
  return at;
}

void ConvolutionHero::emitActivations(
    const Activations &result, Value row, Sink sink,
    llvm::function_ref<SmallVector<Value>(const Position &)> sums) {
  int64_t columns = channelsLast ? result.channels : result.spatial.back();
  emitChunks(
      b, columns, 1, channelsLast ? 4 : 1, {},
      [&](Chunk chunk, ValueRange) {
        Position at = getPosition(result, row, chunk);
        for (auto [i, sum] : llvm::enumerate(sums(at)))
          sink(chunk.getVector(b, i), sum);
        return Carried();
      },
      context.columns);
}

void ForwardHero::emitRow(Value row, Sink sink) {
  emitActivations(output, row, sink,
                  [&](const Position &at) { return sum(at); });
}

void InputGradHero::emitRow(Value row, Sink sink) {
  emitActivations(input, row, sink,
                  [&](const Position &at) { return sum(at); });
}

// y[out] = sum over taps and the group's input channels of x[in] * w.
SmallVector<Value> ForwardHero::sum(const Position &at) {
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
SmallVector<Value> InputGradHero::sum(const Position &at) {
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
// Channels of x lie side by side where they are last, and in the weight a
// filter apart.
void WeightGradHero::sumChannels(Value row, ValueRange taps, Sink sink) {
  Value first = mulIndex(b, divide(row, outPerGroup), inPerGroup);
  SmallVector<Bounds> bounds = {upTo(batch)};
  for (auto [axis, tap] : llvm::zip_equal(axes, taps))
    bounds.push_back(getOutputs(b, axis, tap));
  int64_t width = channelsLast ? context.getVectorWidth() : 1;
  auto sumChunk = [&](Chunk chunk, ValueRange) {
    Value start = addIndex(b, first, chunk.index);
    SmallVector<Value> init(chunk.count, zeros(chunk.width));
    Carried sums =
        emitNest(b, bounds, init, [&](ValueRange indices, ValueRange carried) {
          ValueRange out = indices.drop_front();
          SmallVector<Value> in;
          for (size_t i = 0; i < axes.size(); ++i)
            in.push_back(getInput(b, axes[i], out[i], taps[i]));
          Value dy = load(y, offset(output, indices[0], row, out));
          Carried next;
          for (auto [i, sum] : llvm::enumerate(carried)) {
            Value channel = addIndex(b, start, i * chunk.stride);
            Value from = offset(input, indices[0], channel, in);
            next.push_back(multiplyAdd(dy, load(x, from, chunk.width), sum));
          }
          return next;
        });
    for (auto [i, sum] : llvm::enumerate(sums))
      for (int64_t lane = 0; lane < chunk.width; ++lane) {
        Value channel = addIndex(b, chunk.getVector(b, i), lane);
        Value column = weightOffset(createIndex(b, 0), channel, taps);
        Value element = chunk.width == 1
                            ? sum
                            : Value(vector::ExtractOp::create(
                                  b, sum, ArrayRef<int64_t>{lane}));
        sink(column, element);
      }
    return Carried();
  };
  emitChunks(b, inPerGroup, width, 4, {}, sumChunk, context.columns);
}

void WeightGradHero::emitRow(Value row, Sink sink) {
  SmallVector<Bounds> taps;
  for (const WindowAxis &axis : axes)
    taps.push_back(upTo(axis.taps));
  emitNest(b, taps, {}, [&](ValueRange indices, ValueRange) {
    sumChannels(row, SmallVector<Value>(indices), sink);
    return Carried();
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
