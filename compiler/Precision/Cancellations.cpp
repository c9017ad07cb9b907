// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Cancellations.h"

#include "compiler/Dialect/MPC/MPC.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mpc;

/// Assumed range of a value that depends only on run-time data, such as an
/// input.
static constexpr Bounds kUnknown = {-1.0, 1.0};

/// An op stays fp32 if the range of its result spans fewer steps of the low
/// type than this. 16 + x in bfloat16, with x in [-1, 1], spans about 16.
static constexpr double kFewSteps = 32.0;

/// A difference c - v with |c| below this cannot cancel, because v is assumed
/// to be of order 1.
static constexpr double kLeastConstant = 0.25;

static double getLargest(Bounds bounds) {
  return std::max(std::abs(bounds.low), std::abs(bounds.high));
}

// Returns the distance between neighbouring numbers of `type` near 1.
static double getStep(FloatType type) {
  const int digits = APFloat::semanticsPrecision(type.getFloatSemantics());
  return std::ldexp(1.0, 1 - digits);
}

Cancellations::Cancellations(ModuleOp module, const ConstantRanges &ranges,
                             const ModelTypes &types, FloatType low)
    : ranges(ranges), types(types), low(low) {
  module.walk([&](PrecisionOpInterface op) {
    if (!isForward(getPhase(op)))
      return;
    addOffset(op);
    addDifference(op);
  });
}

// Inserts `op` if its result is a sum with a large constant, such as 10000 + x,
// in which float32 resolves x but `low` does not. In terms of the result's
// range: width > largest × eps(f32), but width < 32 × largest × eps(low).
void Cancellations::addOffset(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>() || op->getNumResults() != 1 ||
      !types.isF32(op->getResult(0)))
    return;
  const ConstantRanges::Range *range = ranges.find(op->getResult(0));
  if (!range)
    return;
  const double width = range->bounds.high - range->bounds.low;
  const double largest = range->getLargest();
  const double exact = getStep(Float32Type::get(op->getContext()));
  if (width > largest * exact && width < largest * getStep(low) * kFewSteps)
    ops.try_emplace(op, RangeFinding{largest, range->source, range->isProved});
}

std::optional<RangeFinding> Cancellations::lookup(Operation *op) const {
  auto found = ops.find(op);
  return found == ops.end() ? std::nullopt : std::optional(found->second);
}

// Returns the range of `value` if it is computed from a constant, or from a
// function argument with a known range (frozen state), by ops of one operand
// such as expand; nullopt otherwise. Also follows values that enter a loop.
static std::optional<Bounds> lookupGiven(Value value,
                                         const ConstantRanges &ranges) {
  const std::optional<Bounds> range = ranges.lookup(value);
  if (!range)
    return std::nullopt;
  for (value = findUncastOrigin(value); value;
       value = findUncastOrigin(value)) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getNumOperands() != 1)
      break;
    value = op->getOperand(0);
  }
  if (!value)
    return std::nullopt;
  Operation *op = value.getDefiningOp();
  const bool isGiven = ranges.lookup(value) && (!op || isa<ConstantOp>(op));
  return isGiven ? range : std::nullopt;
}

// Returns the lower end of the range in which `value` saturates: -1 for the
// result of a tanh. Returns 0 if `value` does not saturate below 0. For a value
// that a loop carries, returns the least end of the initial and the yielded
// value.
static double getLowerEnd(Value value) {
  double end = 0.0;
  for (Value origin : listUncastOrigins(value))
    if (std::optional<Bounds> ends = getSaturation(origin))
      end = std::min(end, ends->low);
  return end;
}

// Inserts the producers of v if v can come close to the constant c in c - v or
// v - c. Differences may be written as sums: 1 + (-v), v + (-1), 1 + tanh(v).
void Cancellations::addDifference(Operation *op) {
  if (!isa<SubOp, AddOp>(op))
    return;
  for (unsigned index : {0, 1}) {
    Value value = op->getOperand(1 - index);
    std::optional<Bounds> constant = lookupGiven(op->getOperand(index), ranges);
    if (!constant || lookupGiven(value, ranges) ||
        getLargest(*constant) < kLeastConstant)
      continue;
    // `at`: the values of `value` at which the result of `op` is 0.
    Bounds at = *constant;
    Value origin = findUncastOrigin(value);
    auto negated = origin ? origin.getDefiningOp<NegOp>() : NegOp();
    if (isa<AddOp>(op) && !negated) {
      at = {-constant->high, -constant->low};
      if (at.low < 0.0 && getLowerEnd(value) >= 0.0)
        continue;
    }
    if (isa<AddOp>(op) && negated)
      value = negated.getInput();
    Bounds usual = {std::min(kUnknown.low, getLowerEnd(value)), kUnknown.high};
    Bounds range = ranges.lookup(value).value_or(usual);
    if (at.low <= range.high && at.high >= range.low) {
      // Only data tells if `value` does come close to the constant.
      const RangeFinding finding = {getLargest(*constant),
                                    ranges.find(op->getOperand(index))->source,
                                    /*isProved=*/false};
      if (negated && isa<AddOp>(op))
        ops.try_emplace(negated, finding);
      addSource(value, finding);
    }
  }
}

// Inserts the op that computes `value` into `ops`. If the op returns elements
// of an operand unchanged, as a reshape does, inserts the producers of the
// operand too.
void Cancellations::addSource(Value value, const RangeFinding &finding) {
  SmallVector<Value> values = {value};
  while (!values.empty())
    for (Value origin : listUncastOrigins(values.pop_back_val())) {
      Operation *op = origin.getDefiningOp();
      auto precise = dyn_cast_or_null<PrecisionOpInterface>(op);
      if (!precise || op->hasTrait<OpTrait::ConstantLike>() ||
          !visited.insert(op).second)
        continue;
      ops.try_emplace(op, finding);
      values.append(listHandedOn(op));
    }
}
