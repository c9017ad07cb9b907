// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Reduction/Accumulators.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Elementwise/EmitIntegers.h"
#include "passes/Codegen/Kernels/Loops/KernelContext.h"
#include "passes/Codegen/Kernels/Loops/Lanes.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
/// A reduction of floats: the initial value, the op of one step, and a flag
/// that steps do not round, so that totals need no wider type.
struct FloatReduction {
  double first;
  Value (*step)(ImplicitLocOpBuilder &b, Value x, Value y);
  bool isExact;
};
} // namespace

template <typename OpTy>
static Value makeStep(ImplicitLocOpBuilder &b, Value x, Value y) {
  return OpTy::create(b, x, y);
}

// Returns the float reduction of `op`. Reductions that do not sum have an entry
// in the table.
static const FloatReduction &getFloatReduction(Operation *op) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  static const FloatReduction sum = {0, makeStep<arith::AddFOp>, false};
  static const llvm::StringMap<FloatReduction> others = {
      {ReduceMaxOp::getOperationName(),
       {-infinity, makeStep<arith::MaximumFOp>, true}},
      {ReduceProdOp::getOperationName(), {1, makeStep<arith::MulFOp>, false}},
  };
  auto found = others.find(op->getName().getStringRef());
  return found == others.end() ? sum : found->second;
}

Type Accumulator::getType(Operation *op) {
  auto integer = dyn_cast<IntegerType>(elementOf(op->getOperand(0)));
  if (!integer)
    return KernelContext::getComputeType(op);
  // Narrow integers accumulate in 32 bits, since threads exchange 32-bit words.
  // The low bits of a wide sum or product equal those of a narrow one.
  return IntegerType::get(op->getContext(), std::max(integer.getWidth(), 32u));
}

Type Accumulator::getTotalType(Operation *op) {
  Type type = getType(op);
  return isa<IntegerType>(type) || getFloatReduction(op).isExact
             ? type
             : Float64Type::get(op->getContext());
}

Value Accumulator::getInit(int64_t width) {
  assert(width > 0 && "an accumulator has lanes");
  Type type = getType(op);
  Lanes lanes(b, KernelContext::getComputeType(op));
  Value scalar = isa<IntegerType>(type)
                     ? emitIntegerFirst(lanes, op, type)
                     : lanes.constant(getFloatReduction(op).first);
  if (width == 1)
    return scalar;
  return vector::BroadcastOp::create(b, VectorType::get(width, type), scalar);
}

Value Accumulator::combine(Value x, Value y) {
  Lanes lanes(b, KernelContext::getComputeType(op));
  if (isa<IntegerType>(getType(op)))
    return emitIntegerStep(lanes, op, x, y);
  return getFloatReduction(op).step(b, x, y);
}

Value Accumulator::combine(ValueRange accumulators) {
  assert(!accumulators.empty() && "a result has accumulators");
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
  assert(llvm::isPowerOf2_64(type.getNumElements()) &&
         "halving folds all lanes");
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

/// Converts an accumulator of `op` to another accumulator type. Integers stay
/// as they are.
static Value convert(ImplicitLocOpBuilder &b, Operation *op, Value value,
                     Type type) {
  auto floating = dyn_cast<FloatType>(type);
  return floating ? Lanes(b, KernelContext::getComputeType(op))
                        .convert(value, floating)
                  : value;
}

void AccumulatorChain::carry(Operation *op, int64_t width, int64_t count) {
  entries.append(count, {op, width});
}

BlockedChain *AccumulatorChain::ifNeeded() {
  bool widens = llvm::any_of(entries, [](const Entry &entry) {
    return Accumulator::getTotalType(entry.op) !=
           Accumulator::getType(entry.op);
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
  for (auto [entry, value] : llvm::zip_equal(entries, carried))
    totals.push_back(
        convert(b, entry.op, value, Accumulator::getTotalType(entry.op)));
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
  for (auto [entry, total] : llvm::zip_equal(entries, totals))
    carried.push_back(
        convert(b, entry.op, total, Accumulator::getType(entry.op)));
  return carried;
}
