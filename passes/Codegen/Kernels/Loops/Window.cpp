// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/Window.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// Returns max(0, ceil(value / divisor)); negative values round to 0.
static Value ceilDivAtLeastZero(ImplicitLocOpBuilder &b, Value value,
                                int64_t divisor) {
  assert(divisor > 0 && "strides and dilations are positive");
  Value positive = arith::MaxSIOp::create(b, addIndex(b, value, divisor - 1),
                                          createIndex(b, 0));
  if (divisor == 1)
    return positive;
  return arith::DivUIOp::create(b, positive, createIndex(b, divisor));
}

static Value subFrom(ImplicitLocOpBuilder &b, int64_t x, Value y) {
  return arith::SubIOp::create(b, createIndex(b, x), y);
}

static Value atMost(ImplicitLocOpBuilder &b, Value x, int64_t limit) {
  return arith::MinSIOp::create(b, x, createIndex(b, limit));
}

LoopBounds codegen::getTaps(ImplicitLocOpBuilder &b, const WindowAxis &axis,
                            Value out) {
  // Find the taps with 0 <= out * stride - padBegin + tap * dilation <
  // inputSize.
  Value start = mulIndex(b, out, axis.stride);
  Value lower =
      ceilDivAtLeastZero(b, subFrom(b, axis.padBegin, start), axis.dilation);
  Value upper = ceilDivAtLeastZero(
      b, subFrom(b, axis.inputSize + axis.padBegin, start), axis.dilation);
  return {lower, atMost(b, upper, axis.taps)};
}

LoopBounds codegen::getOutputs(ImplicitLocOpBuilder &b, const WindowAxis &axis,
                               Value tap) {
  Value reach = mulIndex(b, tap, axis.dilation);
  Value lower =
      ceilDivAtLeastZero(b, subFrom(b, axis.padBegin, reach), axis.stride);
  Value upper = ceilDivAtLeastZero(
      b, subFrom(b, axis.inputSize + axis.padBegin, reach), axis.stride);
  return {lower, atMost(b, upper, axis.outputSize)};
}

Value codegen::getInput(ImplicitLocOpBuilder &b, const WindowAxis &axis,
                        Value out, Value tap) {
  Value position = addIndex(b, mulIndex(b, out, axis.stride),
                            mulIndex(b, tap, axis.dilation));
  return addIndex(b, position, -axis.padBegin);
}

Neighbour codegen::findInput(ImplicitLocOpBuilder &b, const WindowAxis &axis,
                             Value out, Value tap) {
  Value position = getInput(b, axis, out, tap);
  // The unsigned comparison also rejects a negative position.
  Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, position,
                                       createIndex(b, axis.inputSize));
  return {position, exists};
}

Neighbour codegen::findOutput(ImplicitLocOpBuilder &b, const WindowAxis &axis,
                              Value in, Value tap) {
  Value distance = arith::SubIOp::create(b, addIndex(b, in, axis.padBegin),
                                         mulIndex(b, tap, axis.dilation));
  // A negative distance is a huge unsigned number, so `output` is not below
  // outputSize, and `exists` is false.
  Value stride = createIndex(b, axis.stride), zero = createIndex(b, 0);
  Value output =
      axis.stride == 1 ? distance : arith::DivUIOp::create(b, distance, stride);
  Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, output,
                                       createIndex(b, axis.outputSize));
  if (axis.stride == 1)
    return {output, exists};
  Value rest = arith::RemUIOp::create(b, distance, stride);
  Value divides =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rest, zero);
  return {output, arith::AndIOp::create(b, exists, divides)};
}

Activations::Activations(ArrayRef<int64_t> shape, bool channelsLast) {
  assert(shape.size() >= 2 && "a batch and channels");
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * shape[axis];
  size_t channelAxis = channelsLast ? shape.size() - 1 : 1;
  channels = shape[channelAxis];
  channelStride = strides[channelAxis];
  batchStride = strides[0];
  for (size_t axis = 1; axis < shape.size(); ++axis)
    if (axis != channelAxis) {
      spatial.push_back(shape[axis]);
      spatialStrides.push_back(strides[axis]);
    }
}

Carried
codegen::emitNest(ImplicitLocOpBuilder &b, ArrayRef<LoopBounds> bounds,
                  ValueRange init,
                  llvm::function_ref<Carried(ValueRange, ValueRange)> body) {
  SmallVector<Value> indices;
  std::function<Carried(size_t, ValueRange)> emit =
      [&](size_t depth, ValueRange carried) -> Carried {
    if (depth == bounds.size())
      return body(indices, carried);
    return emitLoop(b, bounds[depth].lower, bounds[depth].upper, 1, carried,
                    [&](Value index, ValueRange inner) {
                      indices.push_back(index);
                      Carried result = emit(depth + 1, inner);
                      indices.pop_back();
                      return result;
                    });
  };
  return emit(0, init);
}

Carried codegen::emitIfElse(ImplicitLocOpBuilder &b, Value condition,
                            llvm::function_ref<Carried()> onTrue,
                            llvm::function_ref<Carried()> onFalse) {
  auto emit = [&](llvm::function_ref<Carried()> body) {
    return [&b, body](OpBuilder &nested, Location) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(nested.getInsertionBlock());
      scf::YieldOp::create(b, body());
    };
  };
  auto branch = scf::IfOp::create(b, condition, emit(onTrue), emit(onFalse));
  return Carried(branch.getResults());
}

Carried codegen::emitIf(ImplicitLocOpBuilder &b, Value condition,
                        ValueRange init, llvm::function_ref<Carried()> body) {
  return emitIfElse(b, condition, body, [&] { return Carried(init); });
}

Value codegen::linearize(ImplicitLocOpBuilder &b, ValueRange indices,
                         ArrayRef<int64_t> strides) {
  Value sum = createIndex(b, 0);
  for (auto [index, stride] : llvm::zip_equal(indices, strides))
    sum = addIndex(b, sum, mulIndex(b, index, stride));
  return sum;
}
