// Decomposes softmax, log-softmax and their gradients. Row kernels reduce the
// last axis, so another axis is moved to the end first, and back afterwards.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Decompose.h"

using namespace mlir;
using namespace mpc;

namespace {
/// Transposes values so that `axis` becomes the last axis, and back.
class LastAxis {
public:
  LastAxis(Emitter &e, int64_t rank, int64_t axis) : e(e), last(rank - 1) {
    for (int64_t i = 0; i < rank; ++i)
      if (i != axis)
        toEnd.push_back(i);
    toEnd.push_back(axis);
    back.resize(rank);
    for (auto [position, source] : llvm::enumerate(toEnd))
      back[source] = position;
    isThere = axis == last;
  }

  Value moved(Value value) {
    return isThere ? value : e.transpose(value, toEnd);
  }
  Value restored(Value value) {
    return isThere ? value : e.transpose(value, back);
  }

private:
  Emitter &e;

public:
  int64_t last;

private:
  SmallVector<int64_t> toEnd, back;
  bool isThere;
};
} // namespace

// Subtracts the maximum along `axis` from x. Then exp cannot overflow.
static Value shifted(Value x, int64_t axis, Emitter &e) {
  return e.emit<SubOp>(x, e.reduce<ReduceMaxOp>(x, {axis}));
}

SmallVector<Value> mpc::decompose(SoftmaxOp op, Emitter &e) {
  LastAxis axis(e, op.getType().getRank(), op.getAxis());
  Value exp = e.emit<ExpOp>(shifted(axis.moved(op.getInput()), axis.last, e));
  Value sum = e.reduce<ReduceSumOp>(exp, {axis.last});
  Type element = op.getType().getElementType();
  return {axis.restored(e.emitAs<DivOp>(element, exp, sum))};
}

SmallVector<Value> mpc::decompose(LogSoftmaxOp op, Emitter &e) {
  LastAxis axis(e, op.getType().getRank(), op.getAxis());
  Value sub = shifted(axis.moved(op.getInput()), axis.last, e);
  Value sum = e.reduce<ReduceSumOp>(e.emit<ExpOp>(sub), {axis.last});
  Type element = op.getType().getElementType();
  return {axis.restored(e.emitAs<SubOp>(element, sub, e.emit<LogOp>(sum)))};
}

// The gradient of y = softmax(x): y * (dy - sum(dy * y))
SmallVector<Value> mpc::decompose(SoftmaxGradOp op, Emitter &e) {
  LastAxis axis(e, op.getType().getRank(), op.getAxis());
  Value dy = axis.moved(op.getDOutput()), y = axis.moved(op.getOutput());
  Value sum = e.reduce<ReduceSumOp>(e.emit<MulOp>(dy, y), {axis.last});
  Type element = op.getType().getElementType();
  return {axis.restored(e.emitAs<MulOp>(element, y, e.emit<SubOp>(dy, sum)))};
}

// The gradient of y = log_softmax(x): dy - exp(y) * sum(dy)
SmallVector<Value> mpc::decompose(LogSoftmaxGradOp op, Emitter &e) {
  LastAxis axis(e, op.getType().getRank(), op.getAxis());
  Value dy = axis.moved(op.getDOutput()), y = axis.moved(op.getOutput());
  Value sum = e.reduce<ReduceSumOp>(dy, {axis.last});
  Value scaled = e.emit<MulOp>(e.emit<ExpOp>(y), sum);
  Type element = op.getType().getElementType();
  return {axis.restored(e.emitAs<SubOp>(element, dy, scaled))};
}
