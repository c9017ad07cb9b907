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

// True if two values come from equal ops on the same operands. Looks back
// through at most `steps` ops.
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
  // Equal tables come from one table by a few equal ops, such as reshapes. A
  // longer search would cost time and find nothing.
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
  // A splat has equal angles in every pair.
  if (elements.isSplat())
    return true;
  ArrayRef<char> bytes = getDenseBytes(elements);
  int64_t size = elementOf(table).getIntOrFloatBitWidth() / 8;
  int64_t count = typeOf(table).getNumElements(), row = 2 * layout.pairs;
  if (size == 0 || static_cast<int64_t>(bytes.size()) != count * size)
    return false;
  // Equal angles have equal bits, so compare bytes.
  auto at = [&](int64_t position) {
    return bytes.slice(position * size, size);
  };
  // Interleaved pairs are neighbours; otherwise the elements of a pair are half
  // a row apart.
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
/// Decides if every pair in a table has equal elements, because both elements
/// of a pair rotate by one angle.
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
  /// The values visited. The search ends at the first value with unequal pairs,
  /// so all visited values have equal pairs, or are being visited.
  llvm::SmallDenseSet<Value> seen;
};
} // namespace

// True if the concat is concat(f, f).
static bool isTwice(ConcatOp concat) {
  return concat.getInputs().size() == 2 &&
         concat.getInputs()[0] == concat.getInputs()[1];
}

// True if `value` repeats each angle so that, in row-major order, both elements
// of a pair are equal. Interleaved pairs repeat each element: [a, a, b, b].
// Other pairs repeat half a row: [a, b, a, b].
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

// A reshape keeps the order of elements, so the repetition may come before the
// reshape.
bool EqualPairs::areViewed(ReshapeOp view, unsigned steps) {
  Value from = skipReshapes(view);
  return repeats(from) || holdFor(from, steps);
}

// True if `op` is elementwise and all operands have equal pairs. An operand
// with a single element per row always has.
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
  // A value that is being visited already has equal pairs if all other operands
  // do.
  if (!seen.insert(table).second || areKnownPairs(table, layout))
    return true;
  Operation *op = table.getDefiningOp();
  if (!op)
    return false;
  // For ops that keep the last axis, the operands must have equal pairs.
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
  // No model computes a table in as many ops.
  constexpr unsigned kMostSteps = 32;
  return EqualPairs(layout).holdFor(table, kMostSteps);
}

// Returns the first argument of the function that holds an equal table.
// Exporters may write the same table once per layer; all layers then share one.
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
