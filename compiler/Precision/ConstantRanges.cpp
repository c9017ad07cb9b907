// Finds value ranges that follow from constants. The ops do the arithmetic,
// through RangeOpInterface.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/ConstantRanges.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Interfaces/TiedValues.h"
#include "compiler/Precision/ConstantElements.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mpc;

/// Bounds assumed for a value that only the data determines.
static constexpr Bounds kData = {-1.0, 1.0};

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

// Infinite elements are left out: they stay infinite in any type.
static std::optional<Bounds> boundsOf(ElementsAttr elements) {
  std::optional<Bounds> range;
  forEachFiniteElement(elements, [&](double number) {
    range = unite(range.value_or(Bounds{number, number}), {number, number});
  });
  return range;
}

// Returns the bounds of the initial value if `variable` is frozen, since no
// step changes it; nullopt for other variables.
static std::optional<Bounds> boundsOf(VariableOp variable) {
  if (!variable || variable.getRole() != Role::Frozen)
    return std::nullopt;
  if (std::optional<ElementsAttr> init = variable.getInit())
    return boundsOf(*init);
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
            boundsOf(symbols.lookup<VariableOp>(state.getRootReference()));
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
    if (std::optional<Bounds> range = boundsOf(constant.getValue()))
      ranges[constant.getResult()] = *range;
    return;
  }
  // Integers have no range here. A float without a known range counts as data,
  // within `kData`.
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
  // The range of an op between data alone would be a guess, so the class of the
  // op decides. An infinite bound, as of x / [0, 1], carries no information.
  std::optional<Bounds> range = known ? inferRange(op, in) : std::nullopt;
  if (range && std::isfinite(range->low) && std::isfinite(range->high))
    ranges[op->getResult(0)] = *range;
  else
    ranges.erase(op->getResult(0));
}

// Returns the joint range of all sources tied to `value`; nullopt if any source
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
  // A carried value starts as its operand and widens with the yielded values.
  SmallVector<Value> growing;
  for (Region &body : op->getRegions())
    for (BlockArgument argument : body.getArguments()) {
      if (std::optional<Bounds> range =
              lookup(op.getTiedOperand(argument).get()))
        ranges[argument] = *range;
      if (argument.getArgNumber() < op.getNumCarried())
        growing.push_back(argument);
    }
  // Drop a range that still grows after a few iterations, as for a sum over all
  // steps. Any bound for it would be a guess.
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
  for (Value result : op->getResults())
    if (std::optional<Bounds> range = uniteSources(result))
      ranges[result] = *range;
    else
      ranges.erase(result);
}

std::optional<Bounds> ConstantRanges::lookup(Value value) const {
  auto found = ranges.find(value);
  return found == ranges.end() ? std::nullopt : std::optional(found->second);
}

bool ConstantRanges::overflows(Value value, FloatType type) const {
  std::optional<Bounds> range = lookup(value);
  if (!range)
    return false;
  // A value above this share of the largest number may overflow in a rounded
  // sum.
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
