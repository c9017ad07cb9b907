// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Accumulators.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/KernelContext.h"
#include "passes/Codegen/Kernels/Lanes.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

Value Accumulator::getInit(int64_t width) {
  FloatType type = KernelContext::getComputeType(op);
  double neutral =
      isa<ReduceMaxOp>(op) ? -std::numeric_limits<double>::infinity() : 0;
  Value scalar = Lanes(b, type).constant(neutral);
  if (width == 1)
    return scalar;
  return vector::BroadcastOp::create(b, VectorType::get(width, type), scalar);
}

Value Accumulator::combine(Value x, Value y) {
  if (isa<ReduceMaxOp>(op))
    return arith::MaximumFOp::create(b, x, y);
  return arith::AddFOp::create(b, x, y);
}

Value Accumulator::combine(ValueRange accumulators) {
  SmallVector<Value> values(accumulators);
  while (values.size() > 1) {
    SmallVector<Value> halved;
    for (size_t i = 0; i + 1 < values.size(); i += 2)
      halved.push_back(combine(values[i], values[i + 1]));
    if (values.size() % 2)
      halved.push_back(values.back());
    values = std::move(halved);
  }
  return values.front();
}

Value Accumulator::combineLanes(Value vector) {
  return foldLanes(b, vector, [&](Value x, Value y) { return combine(x, y); });
}

Value codegen::foldLanes(ImplicitLocOpBuilder &b, Value vector,
                         llvm::function_ref<Value(Value, Value)> combine) {
  auto type = dyn_cast<VectorType>(vector.getType());
  if (!type)
    return vector;
  for (int64_t width = type.getNumElements(); width > 1; width /= 2) {
    Value low = vector::ExtractStridedSliceOp::create(
        b, vector, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{width / 2},
        ArrayRef<int64_t>{1});
    Value high = vector::ExtractStridedSliceOp::create(
        b, vector, ArrayRef<int64_t>{width / 2}, ArrayRef<int64_t>{width / 2},
        ArrayRef<int64_t>{1});
    vector = combine(low, high);
  }
  return vector::ExtractOp::create(b, vector, ArrayRef<int64_t>{0});
}

Value Accumulator::finish(Value accumulated) {
  auto mean = dyn_cast<ReduceMeanOp>(op);
  if (!mean)
    return accumulated;
  ArrayRef<int64_t> shape = mean.getInput().getType().getShape();
  double count = 1;
  for (int64_t axis : mean.getAxes())
    count *= shape[axis];
  count /= mean.getParts().value_or(1);
  Lanes lanes(b, KernelContext::getComputeType(op));
  return lanes.div(accumulated, lanes.constant(count));
}

//===----------------------------------------------------------------------===//
// Chains
//===----------------------------------------------------------------------===//

/// The type of the totals of accumulators of `type`.
static FloatType getTotalType(Operation *op, FloatType type) {
  return isa<ReduceMaxOp>(op) ? type : Float64Type::get(type.getContext());
}

void AccumulatorChain::carry(Operation *op, int64_t width, int64_t count) {
  entries.append(count, {op, width});
}

BlockedChain *AccumulatorChain::ifNeeded() {
  bool widens = llvm::any_of(entries, [](const Entry &entry) {
    FloatType type = KernelContext::getComputeType(entry.op);
    return getTotalType(entry.op, type) != type;
  });
  return widens ? this : nullptr;
}

Carried AccumulatorChain::start() {
  Carried values;
  for (const Entry &entry : entries)
    values.push_back(Accumulator(b, entry.op).getInit(entry.width));
  return values;
}

Carried AccumulatorChain::open(ValueRange carried) {
  Carried totals;
  for (auto [entry, value] : llvm::zip_equal(entries, carried)) {
    FloatType type = KernelContext::getComputeType(entry.op);
    totals.push_back(
        Lanes(b, type).convert(value, getTotalType(entry.op, type)));
  }
  return totals;
}

Carried AccumulatorChain::add(ValueRange totals, ValueRange block) {
  Carried sums;
  for (auto [entry, total, value] :
       llvm::zip_equal(entries, totals, open(block)))
    sums.push_back(Accumulator(b, entry.op).combine(total, value));
  return sums;
}

Carried AccumulatorChain::close(ValueRange totals) {
  Carried carried;
  for (auto [entry, total] : llvm::zip_equal(entries, totals)) {
    FloatType type = KernelContext::getComputeType(entry.op);
    carried.push_back(Lanes(b, type).convert(total, type));
  }
  return carried;
}
