// Emits the sums of convolutions and their gradients.
//
// With channels last, the lanes of a vector are adjacent channels of the
// result. The filters must have these channels side by side, so Planning adds a
// transpose; the loops read through the transpose by strides. A block of
// neighbouring pixels shares the loads of filters. In the weight gradient,
// lanes are output channels, the rows of the result. With channels first,
// elements are computed one by one.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Contraction/ContractionSums.h"
#include "passes/Codegen/Kernels/Loops/Window.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// Returns the strides of the axes of `weight` (out, in, taps) in the buffer
/// that the weights are loaded from. A transpose between the buffer and
/// `weight` permutes the strides.
static SmallVector<int64_t> getFilterStrides(Value weight) {
  auto transpose = weight.getDefiningOp<TransposeOp>();
  ArrayRef<int64_t> stored = shapeOf(transpose ? transpose.getInput() : weight);
  SmallVector<int64_t> strides(stored.size(), 1);
  for (size_t axis = stored.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * stored[axis];
  if (!transpose)
    return strides;
  return llvm::map_to_vector(transpose.getPerm(),
                             [&](int64_t axis) { return strides[axis]; });
}

namespace {
/// The common base of convolutions and their gradients. `x` (input) and `y`
/// (output) are activations or their gradients, and `w` the weights (out, in /
/// group, taps) or their gradient.
class ConvolutionHero : public ContractionSums {
public:
  template <typename OpTy>
  ConvolutionHero(KernelContext &context, OpTy op, Value x, Value w, Value y)
      : ContractionSums(context, op), x(x), w(w), y(y),
        channelsLast(op.getLayout() == Layout::NHWC),
        input(shapeOf(x), channelsLast), output(shapeOf(y), channelsLast),
        filterStrides(getFilterStrides(w)) {
    if (auto transpose = w.getDefiningOp<TransposeOp>())
      this->w = transpose.getInput();
    ArrayRef<int64_t> weight = shapeOf(w);
    groups = static_cast<int64_t>(op.getGroup());
    outPerGroup = output.channels / groups;
    inPerGroup = weight[1];
    batch = shapeOf(x).front();
    size_t rank = weight.size() - 2;
    for (size_t i = 0; i < rank; ++i)
      axes.push_back({input.spatial[i], output.spatial[i], weight[i + 2],
                      op.getStrides()[i], op.getDilations()[i], op.getPads()[i],
                      op.getPads()[i + rank]});
  }

protected:
  Value offset(const Activations &of, Value batchIndex, Value channel,
               ValueRange spatial) {
    Value start = addIndex(b, mulIndex(b, batchIndex, of.batchStride),
                           mulIndex(b, channel, of.channelStride));
    return addIndex(b, start, linearize(b, spatial, of.spatialStrides));
  }
  /// Returns the offset of weight (out, in, taps) in the buffer of the weights.
  Value filterOffset(Value out, Value in, ValueRange taps) {
    SmallVector<Value> indices = {out, in};
    llvm::append_range(indices, taps);
    return linearize(b, indices, filterStrides);
  }
  SmallVector<LoopBounds> allTaps() {
    return llvm::map_to_vector(axes, [&](const WindowAxis &axis) {
      return LoopBounds{createIndex(b, 0), createIndex(b, axis.taps)};
    });
  }

  /// True if several rows of the result are summed at once. Always false on a
  /// GPU, where threads share the rows, and the columns of each row.
  bool blocksRows() const { return channelsLast && !context.target.isGPU(); }

  Value x, w, y;
  bool channelsLast;
  Activations input, output;
  SmallVector<WindowAxis> axes;
  SmallVector<int64_t> filterStrides;
  int64_t groups, inPerGroup, outPerGroup, batch;
};

/// Emits a convolution, which reads x and writes y, or the gradient of its
/// input, which reads dy and writes dx. `from` is the layout of the tensor that
/// is read, `to` of the tensor that is written.
class ActivationHero : public ConvolutionHero {
public:
  template <typename OpTy>
  ActivationHero(KernelContext &context, OpTy op, Value x, Value w, Value y)
      : ConvolutionHero(context, op, x, w, y), isForward(isa<ConvOp>(op)),
        from(isForward ? input : output), to(isForward ? output : input),
        source(isForward ? x : y), fromPerGroup(from.channels / groups),
        toPerGroup(to.channels / groups) {}

  void emitRows(Value row, int64_t count, Sink sink) override;
  RowBlocks getBlocks() override {
    return blocksRows() ? RowBlocks{{kRowsAtOnce, 1}, to.spatial.back()}
                        : RowBlocks();
  }

private:
  /// The position of a result element, without its channel.
  struct Position {
    Value batch;
    SmallVector<Value> spatial;
  };
  /// Channels [channel, channel + chunk.width * chunk.count) of the channel
  /// group `group` of the result.
  struct Channels {
    Value group, channel;
    Chunk chunk;
  };
  /// The element that a position of the result reads at one tap: the offset at
  /// the first channel of the group, and a flag that the element is inside the
  /// image.
  struct Source {
    Value offset, exists;
  };

  void emitPixels(Value row, int64_t count, Sink sink);
  void emitLine(Value row, Sink sink);
  SmallVector<Value> sum(ArrayRef<Position> positions, Channels channels);
  Source getSource(const Position &at, ValueRange taps, Value group);
  Carried addTap(ArrayRef<Source> sources, ValueRange taps, Channels channels,
                 ValueRange sums);
  Carried addChannels(ArrayRef<Source> sources, ValueRange taps,
                      Channels channels, ValueRange sums);

  bool isForward;
  const Activations &from, &to;
  Value source;
  int64_t fromPerGroup, toPerGroup;
};

class WeightGradHero : public ConvolutionHero {
public:
  using ConvolutionHero::ConvolutionHero;
  void emitRows(Value row, int64_t count, Sink sink) override;
  RowBlocks getBlocks() override;

private:
  /// Weights that are summed together: at one tap, `count` input channels of a
  /// channel group, from channel `first` on and `stride` apart.
  struct Filters {
    ValueRange taps;
    Value first;
    int64_t count, stride;
  };

  void sumFilters(Value row, int64_t rows, Filters filters, Sink sink);
  Carried addImages(Value row, Value image, int64_t images, Filters filters,
                    ValueRange sums);
};
} // namespace

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

void ActivationHero::emitRows(Value row, int64_t count, Sink sink) {
  if (channelsLast)
    emitPixels(row, count, sink);
  else
    emitLine(row, sink);
}

// Emits `count` rows of a result with channels last. Rows are adjacent pixels
// of one image line, columns are channels.
void ActivationHero::emitPixels(Value row, int64_t count, Sink sink) {
  // The pixels are neighbours in a line, so derive all positions from the
  // first.
  SmallVector<int64_t> sizes = {batch};
  llvm::append_range(sizes, to.spatial);
  SmallVector<Value> parts = splitIndex(b, row, sizes);
  SmallVector<Position> positions;
  for (int64_t i = 0; i < count; ++i) {
    Position at = {parts[0], SmallVector<Value>(llvm::drop_begin(parts))};
    at.spatial.back() = addIndex(b, at.spatial.back(), i);
    positions.push_back(at);
  }
  // Use vectors of channels only if the filters hold these channels side by
  // side (stride 1).
  bool hasLanes = blocksRows() && filterStrides[isForward ? 0 : 1] == 1;
  int64_t width = hasLanes ? context.getVectorWidth() : 1;
  emitLoop(b, groups, 1, {}, [&](Value group, ValueRange) {
    Value first = mulIndex(b, group, toPerGroup);
    return emitChunks(
        b, toPerGroup, width, getVectorsAtOnce(), {},
        [&](Chunk chunk, ValueRange) {
          for (auto [i, sum] :
               llvm::enumerate(sum(positions, {group, chunk.index, chunk})))
            sink(i / chunk.count,
                 addIndex(b, first, chunk.getVector(b, i % chunk.count)), sum);
          return Carried();
        },
        context.columns);
  });
}

// Emits one row of a result with channels first. The row is an image line of
// one channel, and its columns are pixels.
void ActivationHero::emitLine(Value row, Sink sink) {
  SmallVector<int64_t> sizes = {batch, groups, toPerGroup};
  sizes.append(to.spatial.begin(), to.spatial.end() - 1);
  SmallVector<Value> parts = splitIndex(b, row, sizes);
  auto emitPixel = [&](Value column, ValueRange) {
    Position at = {parts[0], SmallVector<Value>(llvm::drop_begin(parts, 3))};
    at.spatial.push_back(column);
    sink(0, column, sum(at, {parts[1], parts[2], Chunk()}).front());
    return Carried();
  };
  emitLoop(b, to.spatial.back(), 1, {}, emitPixel, context.columns);
}

// y[out] = sum over taps and the group's input channels of x[in] * w. dx[in] =
// sum over taps and the group's output channels of dy[out] * w, for outputs
// that read `in` at the tap. Returns all sums of the first position, then all
// sums of the second, and so on.
SmallVector<Value> ActivationHero::sum(ArrayRef<Position> positions,
                                       Channels channels) {
  SmallVector<Value> init(positions.size() * channels.chunk.count,
                          zeros(channels.chunk.width));
  return emitNest(b, allTaps(), init, [&](ValueRange taps, ValueRange sums) {
    SmallVector<Source> sources;
    for (const Position &at : positions)
      sources.push_back(getSource(at, taps, channels.group));
    return addTap(sources, taps, channels, sums);
  });
}

ActivationHero::Source ActivationHero::getSource(const Position &at,
                                                 ValueRange taps, Value group) {
  SmallVector<Value> spatial;
  Value exists;
  for (size_t i = 0; i < axes.size(); ++i) {
    Neighbour neighbour = isForward
                              ? findInput(b, axes[i], at.spatial[i], taps[i])
                              : findOutput(b, axes[i], at.spatial[i], taps[i]);
    spatial.push_back(neighbour.position);
    exists = exists ? Value(arith::AndIOp::create(b, exists, neighbour.exists))
                    : neighbour.exists;
  }
  Value first = mulIndex(b, group, fromPerGroup);
  return {offset(from, at.batch, first, spatial), exists};
}

// Adds the products of one tap to the sums of a block of positions. Inside the
// image, all positions have an element to read. At the border, each position is
// tested separately.
Carried ActivationHero::addTap(ArrayRef<Source> sources, ValueRange taps,
                               Channels channels, ValueRange sums) {
  // Adds to the sums of position i, unless the tap is outside the image there.
  auto addOne = [&](size_t i) {
    size_t count = channels.chunk.count;
    ValueRange own = sums.slice(i * count, count);
    return emitIf(b, sources[i].exists, own,
                  [&] { return addChannels(sources[i], taps, channels, own); });
  };
  if (sources.size() == 1)
    return addOne(0);
  // If every position has an element to read, add to all sums at once.
  // Otherwise test each position separately.
  Value all = sources.front().exists;
  for (const Source &each : sources.drop_front())
    all = arith::AndIOp::create(b, all, each.exists);
  return emitIfElse(
      b, all, [&] { return addChannels(sources, taps, channels, sums); },
      [&] {
        Carried next;
        for (size_t i = 0; i < sources.size(); ++i)
          llvm::append_range(next, addOne(i));
        return next;
      });
}

Carried ActivationHero::addChannels(ArrayRef<Source> sources, ValueRange taps,
                                    Channels channels, ValueRange sums) {
  const Chunk &chunk = channels.chunk;
  // Weights are indexed (out, in). In the forward pass, `out` are the channels
  // of the result and `in` the summed channels; in the gradient, the reverse.
  Value toFirst = mulIndex(b, channels.group, isForward ? toPerGroup : 0);
  Value fromFirst = mulIndex(b, channels.group, isForward ? 0 : fromPerGroup);
  Value to = addIndex(b, toFirst, channels.channel);
  int64_t toStride = filterStrides[isForward ? 0 : 1];
  return emitLoop(b, fromPerGroup, 1, sums, [&](Value c, ValueRange carried) {
    // For each summed channel, load the weights once, and multiply one element
    // of each pixel by them.
    Value from = addIndex(b, fromFirst, c);
    Value filter =
        isForward ? filterOffset(to, from, taps) : filterOffset(from, to, taps);
    SmallVector<Value> filters;
    for (int64_t i = 0; i < chunk.count; ++i)
      filters.push_back(load(
          w, addIndex(b, filter, i * chunk.stride * toStride), chunk.width));
    Value shift = mulIndex(b, c, this->from.channelStride);
    Carried next;
    for (const Source &each : sources) {
      Value value = load(source, addIndex(b, each.offset, shift));
      for (Value weight : filters)
        next.push_back(lanes.multiplyAdd(value, weight, carried[next.size()]));
    }
    return next;
  });
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

// The rows of a weight gradient are output channels. With channels last, these
// are adjacent in dy, so a block of rows is one vector with a lane per row.
ContractionSums::RowBlocks WeightGradHero::getBlocks() {
  RowBlocks blocks = {{}, outPerGroup};
  int64_t widest = blocksRows() ? context.getVectorWidth() : 1;
  for (int64_t count = widest; count >= 1; count /= 2)
    blocks.counts.push_back(count);
  return blocks;
}

void WeightGradHero::emitRows(Value row, int64_t count, Sink sink) {
  emitNest(b, allTaps(), {}, [&](ValueRange taps, ValueRange) {
    // Divide the input channels into chunks. On a CPU, a chunk is up to eight
    // adjacent channels, each with a separate sum. On a GPU, a chunk is up to
    // four channels of this thread, `stride` apart.
    bool isTeam = !context.columns.isAlone();
    auto sumChunk = [&](Chunk chunk, ValueRange) {
      sumFilters(row, count,
                 {taps, chunk.index, chunk.width * chunk.count,
                  isTeam ? chunk.stride : 1},
                 sink);
      return Carried();
    };
    return emitChunks(b, inPerGroup, isTeam ? 1 : 8, isTeam ? 4 : 1, {},
                      sumChunk, context.columns);
  });
}

// dw[out, in, taps] = sum over the batch and the positions of dy[out] * x[in].
// If channels are few, several images are summed separately, so that their
// additions do not wait for each other.
void WeightGradHero::sumFilters(Value row, int64_t rows, Filters filters,
                                Sink sink) {
  // Sum several images at once, as many as fit the registers.
  int64_t images = std::min<int64_t>({8 / filters.count, 4, batch});
  Carried sums(images * filters.count, zeros(rows));
  sums = emitChunks(
      b, batch, 1, images, sums, [&](Chunk chunk, ValueRange carried) {
        Carried next(carried);
        llvm::copy(addImages(row, chunk.index, chunk.count, filters,
                             carried.take_front(chunk.count * filters.count)),
                   next.begin());
        return next;
      });
  // Add up the images' separate sums in order. Each lane of a total belongs to
  // another row of the result, so pass on the lanes one by one.
  for (int64_t i = 0; i < filters.count; ++i) {
    Value sum = sums[i];
    for (size_t other = i + filters.count; other < sums.size();
         other += filters.count)
      sum = lanes.add(sum, sums[other]);
    Value column = filterOffset(createIndex(b, 0),
                                addIndex(b, filters.first, i * filters.stride),
                                filters.taps);
    for (int64_t lane = 0; lane < rows; ++lane)
      sink(lane, column,
           rows == 1 ? sum
                     : Value(vector::ExtractOp::create(
                           b, sum, ArrayRef<int64_t>{lane})));
  }
}

// Adds the products of images [image, image + images). Each image has separate
// sums.
Carried WeightGradHero::addImages(Value row, Value image, int64_t images,
                                  Filters filters, ValueRange sums) {
  // Visit only the output positions that read inside the image at this tap.
  SmallVector<LoopBounds> bounds;
  for (auto [axis, tap] : llvm::zip_equal(axes, filters.taps))
    bounds.push_back(getOutputs(b, axis, tap));
  Value group = arith::DivUIOp::create(b, row, createIndex(b, outPerGroup));
  Value channel = addIndex(b, mulIndex(b, group, inPerGroup), filters.first);
  auto type = dyn_cast<VectorType>(sums.front().getType());
  int64_t width = type ? type.getNumElements() : 1;
  // dy is a vector of output channels; x is one number for all lanes.
  return emitNest(b, bounds, sums, [&](ValueRange out, ValueRange carried) {
    SmallVector<Value> in;
    for (size_t i = 0; i < axes.size(); ++i)
      in.push_back(getInput(b, axes[i], out[i], filters.taps[i]));
    Value dyFrom = offset(output, image, row, out);
    Value xFrom = offset(input, image, channel, in);
    Carried next;
    // Load each vector of dy once, and multiply it by one element of x per
    // input channel.
    for (int64_t n = 0; n < images; ++n) {
      Value dy = load(y, addIndex(b, dyFrom, n * output.batchStride), width);
      Value from = addIndex(b, xFrom, n * input.batchStride);
      for (int64_t i = 0; i < filters.count; ++i) {
        Value each =
            addIndex(b, from, i * filters.stride * input.channelStride);
        next.push_back(
            lanes.multiplyAdd(dy, load(x, each), carried[next.size()]));
      }
    }
    return next;
  });
}

std::unique_ptr<ContractionSums>
codegen::createConvolutionHero(KernelContext &context, Operation *op) {
  if (auto conv = dyn_cast<ConvOp>(op))
    return std::make_unique<ActivationHero>(context, conv, conv.getInput(),
                                            conv.getWeight(), conv.getOutput());
  if (auto grad = dyn_cast<ConvInputGradOp>(op))
    return std::make_unique<ActivationHero>(
        context, grad, grad.getDInput(), grad.getWeight(), grad.getDOutput());
  auto grad = cast<ConvWeightGradOp>(op);
  return std::make_unique<WeightGradHero>(context, grad, grad.getInput(),
                                          grad.getDWeight(), grad.getDOutput());
}
