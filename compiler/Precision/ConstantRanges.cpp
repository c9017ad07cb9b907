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
  module.walk([&](FunctionOpInterface function) {
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
        ranges.try_emplace(argument, *range->second);
    }
  });
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
      ranges[constant.getResult()] = *range;
    return;
  }
  if (auto cast = dyn_cast<amp::CastOp>(op)) {
    if (std::optional<Bounds> range = lookup(cast.getInput()))
      ranges[cast.getOutput()] = *range;
    else
      ranges.erase(cast.getOutput());
    return;
  }
  // Collect the ranges of the float operands. An operand without a known range
  // is data, and assumed to lie within `kData`.
  SmallVector<Bounds> in;
  bool known = holdsConstant(op);
  for (Value operand : op->getOperands()) {
    if (!isa<FloatType>(getElementTypeOrSelf(operand.getType())))
      continue;
    std::optional<Bounds> range = lookup(operand);
    known |= range.has_value();
    in.push_back(range.value_or(kData));
  }
  if (op->getNumResults() != 1)
    return;
  // If no operand depends on a constant, a range would be a guess. Without a
  // range, the op's policy class decides. An infinite bound, as of x / [0, 1],
  // carries no information.
  std::optional<Bounds> range = known ? inferRange(op, in) : std::nullopt;
  if (range && std::isfinite(range->low) && std::isfinite(range->high))
    ranges[op->getResult(0)] = *range;
  else
    ranges.erase(op->getResult(0));
}

// Returns the union of the ranges of all values that `value`, an argument or
// result of a loop or branch, can be equal to; nullopt if any of these values
// has no range.
std::optional<Bounds> ConstantRanges::uniteSources(Value value) const {
  std::optional<Bounds> range;
  for (Value source : listTiedSources(value)) {
    std::optional<Bounds> found = lookup(source);
    if (!found)
      return std::nullopt;
    range = unite(range.value_or(*found), *found);
  }
  return range;
}

void ConstantRanges::visitBodies(BodyOpInterface op) {
  // A value that a loop carries starts with the range of the operand and widens
  // with the yielded values.
  SmallVector<Value> growing;
  for (Region &body : op->getRegions())
    for (BlockArgument argument : body.getArguments()) {
      if (std::optional<Bounds> range =
              lookup(op.getTiedOperand(argument).get()))
        ranges[argument] = *range;
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
      std::optional<Bounds> range = uniteSources(argument);
      if (!before ||
          (range && range->low == before->low && range->high == before->high))
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
    if (std::optional<Bounds> range = uniteSources(result))
      ranges[result] = *range;
    else
      ranges.erase(result);
  }
}

std::optional<Bounds> ConstantRanges::lookup(Value value) const {
  auto found = ranges.find(value);
  return found == ranges.end() ? std::nullopt : std::optional(found->second);
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
