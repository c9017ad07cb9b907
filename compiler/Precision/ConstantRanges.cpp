// Computes ranges of values from the ranges of constants. Each op computes the
// range of its result, through RangeOpInterface.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/ConstantRanges.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Interfaces/TiedValues.h"
#include "compiler/Precision/ConstantElements.h"
#include "compiler/Precision/ModelTypes.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mpc;

/// Assumed range of a value that depends only on run-time data, such as an
/// input.
static constexpr Bounds kData = {-1.0, 1.0};

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

// Returns the smallest and the largest finite element; nullopt if there is
// none. Infinite elements do not count: they stay infinite in any type.
static std::optional<Bounds>
boundsOf(const std::optional<ElementSummary> &elements) {
  if (!elements || elements->isEmpty)
    return std::nullopt;
  return Bounds{elements->low, elements->high};
}

// Returns the bounds of the initial value if `variable` is frozen, since no
// step changes it; nullopt for other variables.
static std::optional<Bounds> boundsOf(VariableOp variable) {
  if (!variable || variable.getRole() != Role::Frozen)
    return std::nullopt;
  if (std::optional<ElementsAttr> init = variable.getInit())
    return boundsOf(summarize(*init));
  double fill = variable.getFill().value_or(APFloat(0.0)).convertToDouble();
  return Bounds{fill, fill};
}

//===----------------------------------------------------------------------===//
// The analysis
//===----------------------------------------------------------------------===//

/// Records ranges of the function arguments that hold frozen state.
void ConstantRanges::addFrozen(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::DenseMap<StringAttr, std::optional<Bounds>> known;
  for (auto function : module.getOps<FunctionOpInterface>())
    for (BlockArgument argument : function.getArguments()) {
      auto state = function.getArgAttrOfType<FlatSymbolRefAttr>(
          argument.getArgNumber(), kStateAttr);
      if (!state || !isa<FloatType>(getElementTypeOrSelf(argument.getType())))
        continue;
      // Several functions may read one variable, so compute its bounds once.
      auto [range, isNew] =
          known.try_emplace(state.getRootReference(), std::nullopt);
      if (isNew)
        range->second =
            boundsOf(lookupMaster(symbols, state.getRootReference()));
      if (range->second)
        ranges.try_emplace(argument,
                           Range{*range->second, argument, /*isProved=*/true});
    }
}

ConstantRanges::ConstantRanges(ModuleOp module) {
  addFrozen(module);
  for (auto function : module.getOps<FunctionOpInterface>())
    if (!function.isExternal())
      visit(function.getFunctionBody().front());
}

// Visits ops in order, so operands have ranges before their users.
void ConstantRanges::visit(Block &block) {
  for (Operation &op : block)
    if (auto list = dyn_cast<BodyOpInterface>(op))
      visitBodies(list);
    else
      visit(&op);
}

void ConstantRanges::visit(Operation *op) {
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (std::optional<Bounds> range = boundsOf(summarizeModel(constant)))
      ranges[constant.getResult()] = {*range, constant.getResult(),
                                      /*isProved=*/true};
    return;
  }
  if (auto cast = dyn_cast<amp::CastOp>(op)) {
    if (const Range *range = find(cast.getInput()))
      ranges[cast.getOutput()] = Range(*range);
    else
      ranges.erase(cast.getOutput());
    return;
  }
  // Collect the ranges of the float operands. An operand without a known range
  // is data, and assumed to lie within `kData`.
  if (op->getNumResults() != 1)
    return;
  SmallVector<Bounds> in;
  bool known = holdsConstant(op);
  // The operand of the largest range is the source of the result's.
  Range result = {kData, op->getResult(0), /*isProved=*/true};
  double largest = 0.0;
  for (Value operand : op->getOperands()) {
    if (!isa<FloatType>(getElementTypeOrSelf(operand.getType())))
      continue;
    const Range *range = find(operand);
    known |= range != nullptr;
    in.push_back(range ? range->bounds : kData);
    result.isProved &= range && range->isProved;
    if (range && range->getLargest() >= largest) {
      largest = range->getLargest();
      result.source = range->source;
    }
  }
  // If no operand depends on a constant, a range would be a guess. Without a
  // range, the op's policy class decides. An infinite bound, as of x / [0, 1],
  // carries no information.
  std::optional<Bounds> range = known ? inferRange(op, in) : std::nullopt;
  if (range && std::isfinite(range->low) && std::isfinite(range->high)) {
    result.bounds = *range;
    ranges[op->getResult(0)] = result;
  } else {
    ranges.erase(op->getResult(0));
  }
}

double ConstantRanges::Range::getLargest() const {
  return std::max(std::abs(bounds.low), std::abs(bounds.high));
}

// Returns the union of the ranges of all values that `value`, an argument or
// result of a loop or branch, can be equal to; nullopt if any of these values
// has no range.
std::optional<ConstantRanges::Range>
ConstantRanges::uniteSources(Value value) const {
  std::optional<Range> range;
  for (Value source : listTiedSources(value)) {
    const Range *found = find(source);
    if (!found)
      return std::nullopt;
    if (!range)
      range = *found;
    if (found->getLargest() > range->getLargest())
      range->source = found->source;
    range->bounds = unite(range->bounds, found->bounds);
    range->isProved &= found->isProved;
  }
  return range;
}

void ConstantRanges::visitBodies(BodyOpInterface op) {
  // A value that a loop carries starts with the range of the operand and widens
  // with the yielded values.
  SmallVector<Value> growing;
  for (Region &body : op->getRegions())
    for (BlockArgument argument : body.getArguments()) {
      if (const Range *range = find(op.getTiedOperand(argument).get()))
        ranges[argument] = Range(*range);
      if (argument.getArgNumber() < op.getNumCarried())
        growing.push_back(argument);
    }
  // Drop a range that still grows after a few rounds, as for a sum over all
  // iterations. Any bound would be a guess.
  constexpr int kRounds = 3;
  for (int round = 0;; ++round) {
    for (Region &body : op->getRegions())
      visit(body.front());
    bool changed = false;
    for (Value argument : growing) {
      std::optional<Bounds> before = lookup(argument);
      std::optional<Range> range = uniteSources(argument);
      if (!before || (range && range->bounds.low == before->low &&
                      range->bounds.high == before->high))
        continue;
      changed = true;
      if (range && round < kRounds)
        ranges[argument] = *range;
      else
        ranges.erase(argument);
    }
    if (!changed)
      break;
  }
  for (Value result : op->getResults()) {
    if (std::optional<Range> range = uniteSources(result))
      ranges[result] = *range;
    else
      ranges.erase(result);
  }
}

const ConstantRanges::Range *ConstantRanges::find(Value value) const {
  auto found = ranges.find(value);
  return found == ranges.end() ? nullptr : &found->second;
}

std::optional<Bounds> ConstantRanges::lookup(Value value) const {
  const Range *range = find(value);
  return range ? std::optional(range->bounds) : std::nullopt;
}

bool ConstantRanges::overflows(Value value, FloatType type) const {
  std::optional<Bounds> range = lookup(value);
  if (!range)
    return false;
  // Keep a margin: a sum that ends just below the largest number may be rounded
  // to infinity.
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
  double largest = std::max(std::abs(range->low), std::abs(range->high));
  return largest > 0.0 && largest < least;
}
