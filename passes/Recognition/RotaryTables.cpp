// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/RotaryTables.h"

#include "passes/Recognition/KnownElements.h"
#include "passes/Recognition/Match.h"

#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Known tables
//===----------------------------------------------------------------------===//

// True if equal ops compute both values from the same operands.
static bool areComputedAlike(Value a, Value b, unsigned steps) {
  if (a == b)
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  bool mayBeAlike = steps > 0 && left && right && left->getNumOperands() > 0 &&
                    left->getNumRegions() == 0 && isMemoryEffectFree(left) &&
                    cast<OpResult>(a).getResultNumber() ==
                        cast<OpResult>(b).getResultNumber();
  return mayBeAlike &&
         OperationEquivalence::isEquivalentTo(
             left, right,
             [&](Value one, Value other) {
               return success(areComputedAlike(one, other, steps - 1));
             },
             /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
}

bool mpc::areEqualTables(Value a, Value b) {
  // Tables differ at most by a few ops, such as views. Long chains would be
  // sums.
  constexpr unsigned kChain = 4;
  if (areComputedAlike(a, b, kChain))
    return true;
  ElementsAttr left = findKnownElements(a), right = findKnownElements(b);
  if (!left || !right || a.getType() != b.getType())
    return false;
  ArrayRef<char> leftBytes = getDenseBytes(left);
  return left == right ||
         (!leftBytes.empty() && leftBytes == getDenseBytes(right));
}

static bool areKnownPairs(Value table, PairLayout layout) {
  ElementsAttr elements = findKnownElements(table);
  if (!elements)
    return false;
  // A splat has equal pairs in any layout.
  if (elements.isSplat())
    return true;
  ArrayRef<char> bytes = getDenseBytes(elements);
  int64_t size = elementOf(table).getIntOrFloatBitWidth() / 8;
  int64_t count = typeOf(table).getNumElements(), row = 2 * layout.pairs;
  if (size == 0 || static_cast<int64_t>(bytes.size()) != count * size)
    return false;
  // Compare bits: equal angles have equal bits.
  auto at = [&](int64_t position) {
    return bytes.slice(position * size, size);
  };
  // The elements of a pair are neighbours, or lie half a row apart.
  for (int64_t start = 0; start < count; start += row)
    for (int64_t i = 0; i < layout.pairs; ++i)
      if (layout.interleaved ? at(start + 2 * i) != at(start + 2 * i + 1)
                             : at(start + i) != at(start + i + layout.pairs))
        return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Computed tables
//===----------------------------------------------------------------------===//

namespace {
/// Decides if both elements of each pair in a table are equal.
class EqualPairs {
public:
  explicit EqualPairs(PairLayout layout) : layout(layout) {}

  /// True if both elements of each pair in `table` are equal. Looks back
  /// through at most `steps` ops.
  bool holdFor(Value table, unsigned steps);

private:
  bool repeats(Value value) const;
  bool areViewed(ReshapeOp view, unsigned steps);
  bool areKept(Operation *op, unsigned steps);

  PairLayout layout;
  /// The values met so far. A value without equal pairs ends the search, so all
  /// others have equal pairs.
  llvm::SmallDenseSet<Value> seen;
};
} // namespace

// True for concat(f, f).
static bool isTwice(ConcatOp concat) {
  return concat.getInputs().size() == 2 &&
         concat.getInputs()[0] == concat.getInputs()[1];
}

// True if `value` repeats elements so that rows of pairs, in row-major order,
// have each angle twice. For interleaved pairs the repeated run is one element,
// otherwise a half row.
bool EqualPairs::repeats(Value value) const {
  ArrayRef<int64_t> shape = shapeOf(value);
  int64_t rank = shape.size(), length = layout.interleaved ? 1 : layout.pairs;
  auto countFrom = [&](int64_t axis) {
    return ShapedType::getNumElements(shape.drop_front(axis));
  };
  if (auto concat = value.getDefiningOp<ConcatOp>())
    return isTwice(concat) && countFrom(concat.getAxis()) == 2 * length;
  auto expand = value.getDefiningOp<ExpandOp>();
  if (!expand)
    return false;
  ArrayRef<int64_t> from = shapeOf(expand.getInput());
  int64_t missing = rank - from.size();
  for (int64_t axis = 0; axis < rank; ++axis)
    if (shape[axis] == 2 && (axis < missing || from[axis - missing] == 1) &&
        countFrom(axis + 1) == length)
      return true;
  return false;
}

// Reshapes keep the order of elements, so rows in front of them count as well.
bool EqualPairs::areViewed(ReshapeOp view, unsigned steps) {
  Value from = skipReshapes(view);
  return repeats(from) || holdFor(from, steps);
}

// True if `op` is elementwise and its operands have equal pairs. Operands with
// one element per row always do.
bool EqualPairs::areKept(Operation *op, unsigned steps) {
  bool isElementwise =
      (hasRole(op, RegionRole::Elementwise) && !dependsOnPlace(op)) ||
      isa<mpc::CastOp>(op);
  return isElementwise && llvm::all_of(op->getOperands(), [&](Value operand) {
           ArrayRef<int64_t> shape = shapeOf(operand);
           return shape.empty() || shape.back() == 1 || holdFor(operand, steps);
         });
}

bool EqualPairs::holdFor(Value table, unsigned steps) {
  ArrayRef<int64_t> shape = shapeOf(table);
  int64_t last = static_cast<int64_t>(shape.size()) - 1;
  if (steps == 0 || last < 0 || shape.back() != 2 * layout.pairs)
    return false;
  // A table that is being visited depends only on the other operands.
  if (!seen.insert(table).second || areKnownPairs(table, layout))
    return true;
  Operation *op = table.getDefiningOp();
  if (!op)
    return false;
  // Ops that keep the last axis pass the question on to their operands.
  auto again = [&](Value value) { return holdFor(value, steps - 1); };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](ConcatOp concat) {
        if (static_cast<int64_t>(concat.getAxis()) == last)
          return repeats(concat.getOutput());
        return llvm::all_of(concat.getInputs(), again);
      })
      .Case([&](ReshapeOp view) { return areViewed(view, steps - 1); })
      .Case([&](TransposeOp transpose) {
        return transpose.getPerm().back() == last &&
               again(transpose.getInput());
      })
      .Case([&](SliceOp slice) { return again(slice.getInput()); })
      .Case([&](GatherOp gather) {
        int64_t axis = gather.getAxis();
        return axis + 1 <
                   static_cast<int64_t>(shapeOf(gather.getData()).size()) &&
               again(gather.getData());
      })
      .Default([&](Operation *other) { return areKept(other, steps - 1); });
}

bool mpc::hasEqualPairs(Value table, PairLayout layout) {
  // No model computes a table in more steps.
  constexpr unsigned kMostSteps = 32;
  return EqualPairs(layout).holdFor(table, kMostSteps);
}

// Returns the first argument that holds the same table. Exporters write a table
// once per layer; sharing makes it one.
static Value findFirst(Value table) {
  if (auto argument = dyn_cast<BlockArgument>(table))
    for (BlockArgument other : argument.getOwner()->getArguments())
      if (other.getType() == table.getType() && areEqualTables(other, table))
        return other;
  return table;
}

Value mpc::takePairs(Value table, PairLayout layout, OpBuilder &builder,
                     Location location) {
  table = findFirst(table);
  SmallVector<int64_t> sizes(shapeOf(table));
  if (sizes.back() != 2 * layout.pairs)
    return table;
  SmallVector<int64_t> offsets(sizes.size(), 0), strides(sizes.size(), 1);
  sizes.back() = layout.pairs;
  if (layout.interleaved)
    strides.back() = 2;
  else
    strides.clear();
  return SliceOp::create(builder, location, typeOf(table).clone(sizes), table,
                         offsets, sizes, strides);
}
