// Emits pooling and its gradients.
//
// With channels last, vectors lie along the channels. With channels first, the
// last axis is spatial, and elements are processed one by one.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Loops/KernelContext.h"
#include "passes/Codegen/Kernels/Loops/Lanes.h"
#include "passes/Codegen/Kernels/Loops/Window.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
/// Emits one pooling kernel. `small` is the layout of the pooled activations,
/// `large` of the activations that windows slide over.
class PoolEmitter {
public:
  template <typename OpTy>
  PoolEmitter(KernelContext &context, OpTy op, Value large, Value small)
      : context(context), op(op), b(context.b),
        lanes(b, KernelContext::getComputeType(op)),
        channelsLast(op.getLayout() == Layout::NHWC),
        large(shapeOf(large), channelsLast),
        small(shapeOf(small), channelsLast) {
    size_t rank = this->large.spatial.size();
    ArrayRef<int64_t> dilations = op.getDilations(); // empty if all are 1
    for (size_t i = 0; i < rank; ++i)
      axes.push_back({this->large.spatial[i], this->small.spatial[i],
                      op.getKernel()[i], op.getStrides()[i],
                      dilations.empty() ? 1 : dilations[i], op.getPads()[i],
                      op.getPads()[i + rank]});
  }

  void emitMax();
  void emitAverage(bool countsPadding);
  void emitMaxGrad();
  void emitAverageGrad(bool countsPadding);

private:
  /// An element, or a vector of channels, of the result.
  struct Position {
    Value batch, channel;
    SmallVector<Value> spatial;
    int64_t width;
  };

  void emitPositions(const Activations &result,
                     llvm::function_ref<void(const Position &)> body);
  Value offset(const Activations &of, const Position &at, ValueRange spatial);
  Value load(Value buffer, Value offset, int64_t width);
  void store(Value buffer, Value offset, Value value);
  Value operand(unsigned number) {
    return context.getBuffer(op->getOperand(number));
  }
  /// Returns the buffer of result `number`; null if the kernel does not return
  /// the result.
  Value result(unsigned number) {
    return context.getBuffer(op->getResult(number));
  }
  Value zeros(int64_t width);
  Value planePosition(ValueRange spatial);
  Value windowSize(ValueRange out, bool countsPadding);
  Carried
  emitReaders(const Position &at, ValueRange init,
              llvm::function_ref<Carried(ValueRange out, ValueRange)> body);

  KernelContext &context;
  Operation *op;
  ImplicitLocOpBuilder &b;
  Lanes lanes;
  bool channelsLast;
  Activations large, small;
  SmallVector<WindowAxis> axes;
};
} // namespace

//===----------------------------------------------------------------------===//
// Positions and memory
//===----------------------------------------------------------------------===//

void PoolEmitter::emitPositions(
    const Activations &result,
    llvm::function_ref<void(const Position &)> body) {
  // With channels last, a row is (batch, spatial), and its elements are
  // channels. With channels first, a row is (batch, channel, all spatial axes
  // but the last), and its elements are positions along the last axis.
  SmallVector<int64_t> sizes = {1};
  if (!channelsLast)
    sizes.push_back(result.channels);
  size_t rowSpatial = result.spatial.size() - (channelsLast ? 0 : 1);
  sizes.append(result.spatial.begin(), result.spatial.begin() + rowSpatial);
  int64_t columns = channelsLast ? result.channels : result.spatial.back();
  int64_t width = channelsLast ? context.getVectorWidth() : 1;
  // With channels last, a vector holds adjacent channels of one position.
  auto emitRow = [&](Value row, ValueRange) {
    SmallVector<Value> parts = splitIndex(b, row, sizes);
    emitChunks(
        b, columns, width, 1, {},
        // With channels first, columns are positions along the last spatial
        // axis, processed one by one.
        [&](Chunk chunk, ValueRange) {
          Position at;
          at.batch = parts[0];
          at.channel = channelsLast ? chunk.index : parts[1];
          at.spatial.assign(parts.begin() + (channelsLast ? 1 : 2),
                            parts.end());
          if (!channelsLast)
            at.spatial.push_back(chunk.index);
          at.width = chunk.width;
          body(at);
          return Carried();
        },
        context.columns);
    return Carried();
  };
  emitLoop(b, context.bounds[0], context.bounds[1], 1, {}, emitRow,
           context.rows);
}

Value PoolEmitter::offset(const Activations &of, const Position &at,
                          ValueRange spatial) {
  Value start = addIndex(b, mulIndex(b, at.batch, of.batchStride),
                         mulIndex(b, at.channel, of.channelStride));
  return addIndex(b, start, linearize(b, spatial, of.spatialStrides));
}

Value PoolEmitter::load(Value buffer, Value offset, int64_t width) {
  Type element = cast<MemRefType>(buffer.getType()).getElementType();
  // With channels last, an offset is a multiple of the channels plus a multiple
  // of `width`.
  Value value =
      context.load(buffer, offset, width, std::gcd(width, large.channels));
  return isa<FloatType>(element) ? lanes.convert(value, lanes.getComputeType())
                                 : value;
}

void PoolEmitter::store(Value buffer, Value offset, Value value) {
  Type element = cast<MemRefType>(buffer.getType()).getElementType();
  if (auto type = dyn_cast<FloatType>(element))
    value = lanes.convert(value, type);
  auto type = dyn_cast<VectorType>(value.getType());
  int64_t width = type ? type.getNumElements() : 1;
  context.store(value, buffer, offset, std::gcd(width, large.channels));
}

Value PoolEmitter::zeros(int64_t width) {
  Value zero = lanes.constant(0);
  if (width == 1)
    return zero;
  return vector::BroadcastOp::create(b, VectorType::get(width, zero.getType()),
                                     zero);
}

/// Returns the row-major index of a position in the spatial plane of `large`,
/// as an i32.
Value PoolEmitter::planePosition(ValueRange spatial) {
  SmallVector<int64_t> strides(axes.size(), 1);
  for (size_t i = axes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * axes[i].inputSize;
  return arith::IndexCastOp::create(b, b.getI32Type(),
                                    linearize(b, spatial, strides));
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

void PoolEmitter::emitMax() {
  emitPositions(small, [&](const Position &at) {
    SmallVector<LoopBounds> taps;
    SmallVector<Value> first;
    for (auto [axis, out] : llvm::zip_equal(axes, at.spatial)) {
      taps.push_back(getTaps(b, axis, out));
      first.push_back(getInput(b, axis, out, taps.back().lower));
    }
    Value floor = lanes.broadcast(
        lanes.constant(-std::numeric_limits<double>::infinity()),
        zeros(at.width));
    // If all elements of a window are -infinity, the first is the maximum.
    Value start = lanes.broadcast(planePosition(first), floor);
    Carried best = emitNest(
        b, taps, {floor, start}, [&](ValueRange tap, ValueRange carried) {
          SmallVector<Value> in;
          for (size_t i = 0; i < axes.size(); ++i)
            in.push_back(getInput(b, axes[i], at.spatial[i], tap[i]));
          Value x = load(operand(0), offset(large, at, in), at.width);
          Value greater =
              lanes.compare(arith::CmpFPredicate::OGT, x, carried[0]);
          // A NaN counts as greater than any number, and the first NaN stays.
          Value isNaN = lanes.compare(arith::CmpFPredicate::UNO, x, x);
          Value wasNumber =
              lanes.compare(arith::CmpFPredicate::ORD, carried[0], carried[0]);
          Value takes = arith::OrIOp::create(
              b, greater, arith::AndIOp::create(b, isNaN, wasNumber));
          return Carried{lanes.select(takes, x, carried[0]),
                         lanes.select(takes, planePosition(in), carried[1])};
        });
    Value to = offset(small, at, at.spatial);
    if (Value maxima = result(0))
      store(maxima, to, best[0]);
    // Only a gradient needs the positions of the maxima.
    Value indices = result(1);
    if (!indices)
      return;
    Value index = best[1];
    Type stored = cast<MemRefType>(indices.getType()).getElementType();
    if (!stored.isInteger(32))
      index = arith::ExtSIOp::create(b, Lanes::typeLike(stored, index), index);
    store(indices, to, index);
  });
}

/// Returns the divisor of the mean at output position `out`: the number of
/// elements in the window, as a float.
Value PoolEmitter::windowSize(ValueRange out, bool countsPadding) {
  Value count = createIndex(b, 1);
  for (auto [axis, position] : llvm::zip_equal(axes, out)) {
    Value size;
    if (countsPadding) {
      // With ceil_mode, a window may reach past the padding. Elements there do
      // not count.
      Value start = mulIndex(b, position, axis.stride);
      Value room = arith::SubIOp::create(
          b, createIndex(b, axis.inputSize + axis.padBegin + axis.padEnd),
          start);
      // Taps are `dilation` apart, so ceil(room / dilation) taps are before the
      // end of the padding.
      Value fitting = addIndex(b, room, axis.dilation - 1);
      if (axis.dilation > 1)
        fitting =
            arith::DivUIOp::create(b, fitting, createIndex(b, axis.dilation));
      size = arith::MinSIOp::create(b, fitting, createIndex(b, axis.taps));
    } else {
      LoopBounds taps = getTaps(b, axis, position);
      size = arith::SubIOp::create(b, taps.upper, taps.lower);
    }
    count = arith::MulIOp::create(b, count, size);
  }
  Value whole = arith::IndexCastOp::create(b, b.getI64Type(), count);
  return arith::SIToFPOp::create(b, lanes.getComputeType(), whole);
}

void PoolEmitter::emitAverage(bool countsPadding) {
  emitPositions(small, [&](const Position &at) {
    SmallVector<LoopBounds> taps;
    for (auto [axis, out] : llvm::zip_equal(axes, at.spatial))
      taps.push_back(getTaps(b, axis, out));
    Carried sum = emitNest(
        b, taps, {zeros(at.width)}, [&](ValueRange tap, ValueRange carried) {
          SmallVector<Value> in;
          for (size_t i = 0; i < axes.size(); ++i)
            in.push_back(getInput(b, axes[i], at.spatial[i], tap[i]));
          Value x = load(operand(0), offset(large, at, in), at.width);
          return Carried{lanes.add(carried[0], x)};
        });
    store(result(0), offset(small, at, at.spatial),
          lanes.div(sum[0], windowSize(at.spatial, countsPadding)));
  });
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// Calls `body` for every output position whose window covers `at`, in the
/// order of taps.
Carried PoolEmitter::emitReaders(
    const Position &at, ValueRange init,
    llvm::function_ref<Carried(ValueRange, ValueRange)> body) {
  SmallVector<LoopBounds> all;
  for (const WindowAxis &axis : axes)
    all.push_back({createIndex(b, 0), createIndex(b, axis.taps)});
  return emitNest(b, all, init, [&](ValueRange tap, ValueRange carried) {
    SmallVector<Value> out;
    Value exists;
    for (size_t i = 0; i < axes.size(); ++i) {
      Neighbour reader = findOutput(b, axes[i], at.spatial[i], tap[i]);
      out.push_back(reader.position);
      exists = exists ? Value(arith::AndIOp::create(b, exists, reader.exists))
                      : reader.exists;
    }
    return emitIf(b, exists, carried, [&] { return body(out, carried); });
  });
}

void PoolEmitter::emitMaxGrad() {
  emitPositions(large, [&](const Position &at) {
    Value own = planePosition(at.spatial);
    Carried sum = emitReaders(
        at, {zeros(at.width)}, [&](ValueRange out, ValueRange carried) {
          Value from = offset(small, at, out);
          Value dy = load(operand(0), from, at.width);
          Value index = load(operand(1), from, at.width);
          Type i32 = Lanes::typeLike(b.getI32Type(), index);
          if (index.getType() != i32)
            index = arith::TruncIOp::create(b, i32, index);
          Value mine = lanes.compare(arith::CmpIPredicate::eq, index, own);
          Value share = lanes.select(mine, dy, lanes.constant(0));
          return Carried{lanes.add(carried[0], share)};
        });
    store(result(0), offset(large, at, at.spatial), sum[0]);
  });
}

void PoolEmitter::emitAverageGrad(bool countsPadding) {
  emitPositions(large, [&](const Position &at) {
    Carried sum = emitReaders(
        at, {zeros(at.width)}, [&](ValueRange out, ValueRange carried) {
          Value dy = load(operand(0), offset(small, at, out), at.width);
          Value share = lanes.div(dy, windowSize(out, countsPadding));
          return Carried{lanes.add(carried[0], share)};
        });
    store(result(0), offset(large, at, at.spatial), sum[0]);
  });
}

LogicalResult codegen::emitWindow(KernelContext &context) {
  Operation &op = context.kernel.getBody().front().front();
  // The op must be the whole kernel.
  Operation *terminator = op.getNextNode();
  if (!terminator || !terminator->hasTrait<OpTrait::IsTerminator>())
    return context.kernel.emitOpError(
        "of kind 'window' must hold exactly one op, found several");
  if (auto pool = dyn_cast<MaxPoolOp>(op))
    PoolEmitter(context, pool, pool.getInput(), pool.getOutput()).emitMax();
  else if (auto pool = dyn_cast<AveragePoolOp>(op))
    PoolEmitter(context, pool, pool.getInput(), pool.getOutput())
        .emitAverage(pool.getCountIncludePad());
  else if (auto grad = dyn_cast<MaxPoolGradOp>(op))
    PoolEmitter(context, grad, grad.getDInput(), grad.getDOutput())
        .emitMaxGrad();
  else if (auto grad = dyn_cast<AveragePoolGradOp>(op))
    PoolEmitter(context, grad, grad.getDInput(), grad.getDOutput())
        .emitAverageGrad(grad.getCountIncludePad());
  else
    return op.emitOpError("is a window op that no code generator supports");
  return success();
}
