// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Cancellations.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Interfaces/TiedValues.h"

#include "mlir/IR/TypeUtilities.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mpc;

/// Of a value that only data determines.
static constexpr Bounds kUnknown = {-1.0, 1.0};

/// A value has lost what it tells where it has fewer steps than this within its
/// range: of 16 + x, with x of order 1, bfloat16 has 17.
static constexpr double kFewSteps = 32.0;

/// A constant below this is far from values of order 1.
static constexpr double kLeastConstant = 0.25;

static double getLargest(Bounds bounds) {
  return std::max(std::abs(bounds.low), std::abs(bounds.high));
}

// The distance of neighbours in `type`, of numbers of order 1.
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

// A sum with a large constant, as far as fp32 has more of the other summand.
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

// The range of a constant, or of state that stays as it is; also where an op of
// one operand gives it on, as an expand does, or a loop takes it.
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

// The lower of the two numbers at which `value` gathers, -1 of a tanh; 0 where
// there is none. What a loop carries gathers where any of its sources does.
static double getLowerEnd(Value value) {
  double end = 0.0;
  for (Value origin : listOrigins(value))
    if (std::optional<Bounds> ends = getSaturation(origin))
      end = std::min(end, ends->low);
  return end;
}

// c - v, v - c, and such as sums: 1 + (-v), v + (-1), 1 + tanh(v).
void Cancellations::addDifference(Operation *op) {
  if (!isa<SubOp, AddOp>(op))
    return;
  for (unsigned index : {0, 1}) {
    Value value = op->getOperand(1 - index);
    std::optional<Bounds> constant = lookupGiven(op->getOperand(index), ranges);
    if (!constant || lookupGiven(value, ranges) ||
        getLargest(*constant) < kLeastConstant)
      continue;
    // What the value is close to where they cancel.
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

// Adds the op that computes `value` to `ops` and, where it only hands on an
// operand, the ops behind it.
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
