// Emits kernels that are a cumulative sum.
//
// A line is the elements along the summed axis. It is processed from the first
// element to the last, or in reverse. A CPU processes adjacent lines in
// vectors; a GPU thread processes a single line. Floats are added in f64, so
// that almost all rounding happens once, when the result is stored.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Codegen/Kernels/Loops/KernelContext.h"
#include "passes/Codegen/Kernels/Loops/Lanes.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
class CumulativeEmitter {
public:
  CumulativeEmitter(KernelContext &context, CumSumOp op)
      : context(context), op(op), b(context.b), l(b, b.getF64Type()),
        space(getCumulativeSpace(op)) {}

  void emitLines();
  void emitAdjacentLines();
  bool hasAdjacentLines() const { return space.inner > 1; }

private:
  void emitLine(Value first, int64_t width);
  Value zeros(int64_t width);
  Value add(Value total, Value element);
  Value toResult(Value total);
  bool isFloat() { return isa<FloatType>(elementOf(op.getInput())); }

  KernelContext &context;
  CumSumOp op;
  ImplicitLocOpBuilder &b;
  Lanes l;
  CumulativeSpace space;
};
} // namespace

Value CumulativeEmitter::zeros(int64_t width) {
  Type element = isFloat() ? Type(b.getF64Type())
                           : getStorageType(elementOf(op.getInput()));
  Type type = width == 1 ? element : Type(VectorType::get(width, element));
  return arith::ConstantOp::create(b, b.getZeroAttr(type));
}

Value CumulativeEmitter::add(Value total, Value element) {
  if (!isFloat())
    return l.addInt(total, element);
  return l.add(total, l.convert(element, b.getF64Type()));
}

Value CumulativeEmitter::toResult(Value total) {
  auto type = dyn_cast<FloatType>(elementOf(op.getOutput()));
  return type ? l.convert(total, type) : total;
}

/// Emits the cumulative sums of `width` adjacent lines. The first line starts
/// at element `first`.
void CumulativeEmitter::emitLine(Value first, int64_t width) {
  Value input = context.buffers.front(), output = context.buffers.back();
  auto step = [&](Value number, ValueRange totals) {
    Value place = number;
    if (op.getReverse())
      place = arith::SubIOp::create(b, createIndex(b, space.size - 1), number);
    Value at = addIndex(b, first, mulIndex(b, place, space.inner));
    Value before = totals.front();
    Value total = add(before, context.load(input, at, width, 1));
    context.store(toResult(op.getExclusive() ? before : total), output, at, 1);
    return Carried{total};
  };
  emitLoop(b, space.size, 1, zeros(width), step);
}

/// Returns the offset of the first element of line `inner` at outer index
/// `outer`.
static Value firstOf(ImplicitLocOpBuilder &b, const CumulativeSpace &space,
                     Value outer, Value inner) {
  return addIndex(b, mulIndex(b, outer, space.size * space.inner), inner);
}

void CumulativeEmitter::emitLines() {
  auto body = [&](Value line, ValueRange) {
    SmallVector<Value> parts = splitIndex(b, line, {1, space.inner});
    emitLine(firstOf(b, space, parts[0], parts[1]), 1);
    return Carried();
  };
  emitLoop(b, context.bounds[0], context.bounds[1], 1, {}, body,
           context.columns);
}

/// Emits lines [begin, end) in vectors of adjacent lines. The range may begin
/// and end within an outer index.
void CumulativeEmitter::emitAdjacentLines() {
  emitRunLoop(b, context.bounds[0], context.bounds[1], space.inner,
              [&](Value outer, Value lower, Value upper) {
                // Use vectors of adjacent lines, then single lines.
                emitDynamicChunks(
                    b, lower, upper, space.inner,
                    {{context.getVectorWidth(), 1}, {1, 1}}, [&](Chunk chunk) {
                      emitLine(firstOf(b, space, outer, chunk.index),
                               chunk.width);
                    });
              });
}

LogicalResult codegen::emitCumulative(KernelContext &context) {
  Operation &op = context.kernel.getBody().front().front();
  Operation *terminator = op.getNextNode();
  auto sum = dyn_cast<CumSumOp>(op);
  if (!sum || !terminator || !terminator->hasTrait<OpTrait::IsTerminator>())
    return context.kernel.emitOpError(
        "of kind 'cumulative' must hold one mpc.cumsum "
        "alone");
  CumulativeEmitter emitter(context, sum);
  if (emitter.hasAdjacentLines() && !context.target.isGPU())
    emitter.emitAdjacentLines();
  else
    emitter.emitLines();
  return success();
}
