// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Cancellations.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Interfaces/TiedValues.h"

#include "mlir/IR/TypeUtilities.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mpc;

/// Bounds assumed for a value that only the data determines.
static constexpr Bounds kUnknown = {-1.0, 1.0};

/// The least number of distinct steps that a meaningful value has within its
/// range. 16 + x in bfloat16, with x of order 1, has only 17.
static constexpr double kFewSteps = 32.0;

/// Smaller constants are far from values of order 1, so nothing cancels.
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
                             FloatType low)
    : ranges(ranges), low(low) {
  module.walk([&](PrecisionOpInterface op) {
    if (!isForward(getPhase(op)))
      return;
    addOffset(op);
    addDifference(op);
  });
}

// Inserts `op` if the result is a sum with a large constant, and float32
// resolves the other summand but `low` does not: width of the range > largest ×
// eps(f32), but < 32 × largest × eps(low).
void Cancellations::addOffset(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>() || op->getNumResults() != 1 ||
      !getElementTypeOrSelf(op->getResult(0)).isF32())
    return;
  std::optional<Bounds> range = ranges.lookup(op->getResult(0));
  if (!range)
    return;
  const double width = range->high - range->low, largest = getLargest(*range);
  const double exact = getStep(Float32Type::get(op->getContext()));
  if (width > largest * exact && width < largest * getStep(low) * kFewSteps)
    ops.insert(op);
}

// Returns the range of `value` if it comes from a constant or from unchanging
// state; nullopt otherwise. Looks through ops of one operand (an expand) and
// through values that enter a loop.
static std::optional<Bounds> lookupGiven(Value value,
                                         const ConstantRanges &ranges) {
  const std::optional<Bounds> range = ranges.lookup(value);
  if (!range)
    return std::nullopt;
  for (value = findOrigin(value); value; value = findOrigin(value)) {
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

// Returns the lower of the two bounds at which `value` saturates: -1 for a
// tanh. Returns 0 if `value` does not saturate. For a carried value, any source
// counts.
static double getLowerEnd(Value value) {
  double end = 0.0;
  for (Value origin : listOrigins(value))
    if (std::optional<Bounds> ends = getSaturation(origin))
      end = std::min(end, ends->low);
  return end;
}

// Handles c - v and v - c, also written as sums: 1 + (-v), v + (-1), 1 +
// tanh(v).
void Cancellations::addDifference(Operation *op) {
  if (!isa<SubOp, AddOp>(op))
    return;
  for (unsigned index : {0, 1}) {
    Value value = op->getOperand(1 - index);
    std::optional<Bounds> constant = lookupGiven(op->getOperand(index), ranges);
    if (!constant || lookupGiven(value, ranges) ||
        getLargest(*constant) < kLeastConstant)
      continue;
    // The result cancels if `value` comes close to `at`.
    Bounds at = *constant;
    Value origin = findOrigin(value);
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
      if (negated && isa<AddOp>(op))
        ops.insert(negated);
      addSource(value);
    }
  }
}

// Inserts the op that computes `value` into `ops`. If that op only passes an
// operand on, inserts the producers of the operand too.
void Cancellations::addSource(Value value) {
  SmallVector<Value> values = {value};
  while (!values.empty())
    for (Value origin : listOrigins(values.pop_back_val())) {
      Operation *op = origin.getDefiningOp();
      auto precise = dyn_cast_or_null<PrecisionOpInterface>(op);
      if (!precise || op->hasTrait<OpTrait::ConstantLike>() ||
          !visited.insert(op).second)
        continue;
      ops.insert(op);
      values.append(listHandedOn(op));
    }
}
