// Interval arithmetic over constants.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/ConstantRanges.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace mlir;
using namespace mpc;

/// What data alone determines.
static constexpr Bounds kData = {-1.0, 1.0};

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static Bounds hull(Bounds a, Bounds b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

static Bounds multiply(Bounds a, Bounds b) {
  double products[] = {a.low * b.low, a.low * b.high, a.high * b.low,
                       a.high * b.high};
  auto [low, high] = std::minmax_element(products, products + 4);
  return {*low, *high};
}

// A divisor that data determines is of order 1 too, not near 0.
static Bounds divide(Bounds a, Bounds b) {
  if (b.low <= 0.0 && b.high >= 0.0) {
    double magnitude = std::max(-b.low, b.high);
    return multiply(a, {-1.0 / magnitude, 1.0 / magnitude});
  }
  return multiply(a, {1.0 / b.high, 1.0 / b.low});
}

static Bounds magnitude(Bounds a) {
  double largest = std::max(std::abs(a.low), std::abs(a.high));
  bool hasZero = a.low <= 0.0 && a.high >= 0.0;
  return {hasZero ? 0.0 : std::min(std::abs(a.low), std::abs(a.high)), largest};
}

// The number of `type` at `bytes`.
static double readNumber(const char *bytes, FloatType type) {
  // All that is large is of f32.
  if (type.isF32()) {
    float value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, type.getWidth() / 8);
  return APFloat(type.getFloatSemantics(), APInt(type.getWidth(), bits))
      .convertToDouble();
}

// The same for numbers of `type` in memory.
static std::optional<Bounds> boundsOf(ArrayRef<char> bytes, FloatType type) {
  std::optional<Bounds> range;
  const unsigned width = type.getWidth() / 8;
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    double number = readNumber(bytes.data() + at, type);
    if (std::isfinite(number))
      range = hull(range.value_or(Bounds{number, number}), {number, number});
  }
  return range;
}

// Of the finite elements: an infinite one is as infinite in any type.
static std::optional<Bounds> boundsOf(ElementsAttr elements) {
  // Values of a resource are read as bytes.
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(elements)) {
    auto type = dyn_cast<FloatType>(resource.getElementType());
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    return type && blob ? boundsOf(blob->getData(), type) : std::nullopt;
  }
  auto values = elements.try_value_begin<APFloat>();
  if (!values)
    return std::nullopt;
  std::optional<Bounds> range;
  // All elements of a splat are its first.
  int64_t count = elements.isSplat() ? 1 : elements.getNumElements();
  for (auto it = *values, end = *values + count; it != end; ++it) {
    APFloat value = *it;
    if (!value.isFinite())
      continue;
    double number = value.convertToDouble();
    range = hull(range.value_or(Bounds{number, number}), {number, number});
  }
  return range;
}

// The bounds of a frozen variable are those of its initial value, since no step
// changes it; other variables have none.
static std::optional<Bounds> boundsOf(VariableOp variable) {
  if (!variable || variable.getRole() != Role::Frozen)
    return std::nullopt;
  if (std::optional<ElementsAttr> init = variable.getInit())
    return boundsOf(*init);
  double fill = variable.getFill().value_or(APFloat(0.0)).convertToDouble();
  return Bounds{fill, fill};
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

static double toDouble(std::optional<APFloat> bound, double otherwise) {
  return bound ? bound->convertToDouble() : otherwise;
}

// True if `op` holds a constant that a low type may not: the value of a pad,
// but for 0 and infinities, which all types have.
static bool holdsConstant(Operation *op) {
  // Only of floats is there a range: of padded token IDs there is none.
  auto pad = dyn_cast<PadOp>(op);
  return pad && isa<FloatType>(elementOf(pad.getResult())) &&
         pad.getValue().isFiniteNonZero();
}

// The range of the result from those of the operands; nothing for ops whose
// results do not follow their operands' range.
static std::optional<Bounds> transfer(Operation *op, ArrayRef<Bounds> in) {
  using Result = std::optional<Bounds>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      // The ends of the result's interval, from those of the operands.
      .Case([&](AddOp) {
        return Bounds{in[0].low + in[1].low, in[0].high + in[1].high};
      })
      .Case([&](SubOp) {
        return Bounds{in[0].low - in[1].high, in[0].high - in[1].low};
      })
      .Case([&](MulOp) { return multiply(in[0], in[1]); })
      .Case([&](DivOp) { return divide(in[0], in[1]); })
      .Case([&](NegOp) {
        return Bounds{-in[0].high, -in[0].low};
      })
      .Case([&](AbsOp) { return magnitude(in[0]); })
      .Case([&](ReluOp) {
        return Bounds{std::max(in[0].low, 0.0), std::max(in[0].high, 0.0)};
      })
      .Case([&](ClipOp clip) {
        double low = toDouble(clip.getMin(), in[0].low);
        double high = toDouble(clip.getMax(), in[0].high);
        auto clamp = [&](double x) { return std::min(std::max(x, low), high); };
        return Bounds{clamp(in[0].low), clamp(in[0].high)};
      })
      // Both are monotonic in either operand.
      .Case([&](MaximumOp) {
        return Bounds{std::max(in[0].low, in[1].low),
                      std::max(in[0].high, in[1].high)};
      })
      .Case([&](MinimumOp) {
        return Bounds{std::min(in[0].low, in[1].low),
                      std::min(in[0].high, in[1].high)};
      })
      // The value of the border is an element as others are.
      .Case([&](PadOp pad) {
        double value = pad.getValue().convertToDouble();
        return hull(in[0], {value, value});
      })
      // Its condition is no float, so `in` holds the two choices alone.
      .Case([&](SelectOp) { return hull(in[0], in[1]); })
      // Neither a change of type nor a choice or mean of elements leaves their
      // range.
      .Case<mpc::CastOp, ReduceMaxOp, ReduceMeanOp>(
          [&](Operation *) { return in[0]; })
      // A move of elements, of one operand or of several (concat), has the
      // range of all.
      .Default([&](Operation *other) -> Result {
        auto precise = dyn_cast<PrecisionOpInterface>(other);
        if (!precise || !precise.movesElements())
          return std::nullopt;
        return std::accumulate(in.begin() + 1, in.end(), in[0], hull);
      });
}

//===----------------------------------------------------------------------===//
// The analysis
//===----------------------------------------------------------------------===//

/// The arguments of functions that are frozen state.
void ConstantRanges::addFrozen(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::DenseMap<StringAttr, std::optional<Bounds>> known;
  module.walk([&](FunctionOpInterface function) {
    for (BlockArgument argument : function.getArguments()) {
      auto state = function.getArgAttrOfType<FlatSymbolRefAttr>(
          argument.getArgNumber(), kStateAttr);
      if (!state || !isa<FloatType>(getElementTypeOrSelf(argument.getType())))
        continue;
      // Several functions read one variable.
      auto [range, isNew] =
          known.try_emplace(state.getRootReference(), std::nullopt);
      if (isNew)
        range->second =
            boundsOf(symbols.lookup<VariableOp>(state.getRootReference()));
      if (range->second)
        ranges.try_emplace(argument, *range->second);
    }
  });
}

ConstantRanges::ConstantRanges(ModuleOp module) {
  addFrozen(module);
  // Operands come before their readers.
  module.walk([&](Operation *op) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      if (std::optional<Bounds> range = boundsOf(constant.getValue()))
        ranges.try_emplace(constant.getResult(), *range);
      return;
    }
    // Integers have no range here; a float of which nothing is known is taken
    // for data, which `kData` bounds.
    SmallVector<Bounds> in;
    bool known = holdsConstant(op);
    for (Value operand : op->getOperands()) {
      if (!isa<FloatType>(getElementTypeOrSelf(operand.getType())))
        continue;
      std::optional<Bounds> range = lookup(operand);
      known |= range.has_value();
      in.push_back(range.value_or(kData));
    }
    // An op between data alone is left to its class: a range would be guessed.
    if (!known || op->getNumResults() != 1)
      return;
    std::optional<Bounds> range = transfer(op, in);
    // An infinite bound, as of x / [0, 1], says nothing.
    if (range && std::isfinite(range->low) && std::isfinite(range->high))
      ranges.try_emplace(op->getResult(0), *range);
  });
}

std::optional<Bounds> ConstantRanges::lookup(Value value) const {
  auto found = ranges.find(value);
  return found == ranges.end() ? std::nullopt : std::optional(found->second);
}

bool ConstantRanges::overflows(Value value, FloatType type) const {
  std::optional<Bounds> range = lookup(value);
  if (!range)
    return false;
  // Rounded sums with a value this close to the largest one may pass it.
  constexpr double kMargin = 1.0 - 1.0 / 512.0;
  double limit =
      kMargin * APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  return std::max(-range->low, range->high) >= limit;
}

bool ConstantRanges::vanishes(Value value, FloatType type) const {
  std::optional<Bounds> range = lookup(value);
  if (!range)
    return false;
  double least = APFloat::getSmallestNormalized(type.getFloatSemantics())
                     .convertToDouble();
  double largest = magnitude(*range).high;
  return largest > 0.0 && largest < least;
}
