// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/IntegerRanges.h"

#include "compiler/Dialect/MPC/ConstantElements.h"

#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

/// Values that one question looks at, at most.
static constexpr size_t kMostValues = 256;

static bool isInteger(Value value) {
  return isa<IntegerType>(elementOf(value));
}

// All integers of a type that fit in 64 bits with a sign.
static IntegerRange typeRange(Type type) {
  auto integer = cast<IntegerType>(type);
  unsigned width = integer.getWidth();
  constexpr IntegerRange all{std::numeric_limits<int64_t>::min(),
                             std::numeric_limits<int64_t>::max()};
  if (width >= 64)
    return all;
  if (isUnsignedElement(integer))
    return {0, (int64_t(1) << width) - 1};
  return {-(int64_t(1) << (width - 1)), (int64_t(1) << (width - 1)) - 1};
}

static IntegerRange unite(const IntegerRange &a, const IntegerRange &b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

namespace {
class RangeFinder {
public:
  explicit RangeFinder(const KnownRanges &known) : known(known) {}

  IntegerRange find(Value value);

private:
  std::optional<IntegerRange> compute(Operation *op);
  std::optional<IntegerRange> computeConstant(ConstantOp op);
  std::optional<IntegerRange> computeBinary(Operation *op);
  std::optional<IntegerRange> computeMod(ModOp op);
  std::optional<IntegerRange> computeSum(Operation *op, int64_t count);

  const KnownRanges &known;
  llvm::DenseMap<Value, IntegerRange> found;
};
} // namespace

// Of 64-bit unsigned integers, whose order is another one, nothing.
std::optional<IntegerRange> RangeFinder::computeConstant(ConstantOp op) {
  std::optional<ConstantElements> elements =
      ConstantElements::read(op.getValue());
  if (!elements || elements->getType().getNumElements() == 0)
    return std::nullopt;
  int64_t count =
      elements->isSplat() ? 1 : elements->getType().getNumElements();
  std::optional<IntegerRange> range;
  for (int64_t i = 0; i < count; ++i) {
    int64_t element = elements->getInteger(i).getExtValue();
    range = range ? unite(*range, {element, element})
                  : IntegerRange{element, element};
  }
  return range;
}

// Sums, differences and products have their extremes where the operands do.
std::optional<IntegerRange> RangeFinder::computeBinary(Operation *op) {
  IntegerRange a = find(op->getOperand(0)), b = find(op->getOperand(1));
  // The larger of a in [0, 5] and b in [3, 9] is in [3, 9], the smaller in
  // [0, 5].
  if (isa<MaximumOp>(op))
    return IntegerRange{std::max(a.low, b.low), std::max(a.high, b.high)};
  if (isa<MinimumOp>(op))
    return IntegerRange{std::min(a.low, b.low), std::min(a.high, b.high)};
  // The extremes of [-2, 3] * [-4, 5], -12 and 15, are among the four products
  // of the ends.
  std::optional<IntegerRange> range;
  for (int64_t left : {a.low, a.high})
    for (int64_t right : {b.low, b.high}) {
      int64_t result;
      bool overflows =
          isa<AddOp>(op)   ? __builtin_add_overflow(left, right, &result)
          : isa<SubOp>(op) ? __builtin_sub_overflow(left, right, &result)
                           : __builtin_mul_overflow(left, right, &result);
      // A sum that leaves 64 bits has no range here.
      if (overflows)
        return std::nullopt;
      range = range ? unite(*range, {result, result})
                    : IntegerRange{result, result};
    }
  return range;
}

// The remainder of a division by what is above 0.
std::optional<IntegerRange> RangeFinder::computeMod(ModOp op) {
  IntegerRange divisor = find(op.getRhs());
  if (divisor.low <= 0)
    return std::nullopt;
  IntegerRange range{op.getFmod() ? 1 - divisor.high : 0, divisor.high - 1};
  if (op.getFmod() && find(op.getLhs()).low >= 0)
    range.low = 0;
  return range;
}

// The range of a sum of at most `count` elements, of fewer too: 0 to 9 of up to
// 4 elements give 0 to 36. Nothing where it overflows.
std::optional<IntegerRange> RangeFinder::computeSum(Operation *op,
                                                    int64_t count) {
  IntegerRange range = find(op->getOperand(0)), sum;
  if (__builtin_mul_overflow(std::min<int64_t>(range.low, 0), count,
                             &sum.low) ||
      __builtin_mul_overflow(std::max<int64_t>(range.high, 0), count,
                             &sum.high))
    return std::nullopt;
  return sum;
}

std::optional<IntegerRange> RangeFinder::compute(Operation *op) {
  using Found = std::optional<IntegerRange>;
  return llvm::TypeSwitch<Operation *, Found>(op)
      // Ops that change type, shape or order of elements keep their range;
      // find() drops a range that the type does not hold.
      .Case([&](ConstantOp constant) { return computeConstant(constant); })
      .Case<CastOp, ReshapeOp, TransposeOp, ExpandOp, SliceOp, ReduceMaxOp>(
          [&](Operation *same) -> Found {
            if (!isInteger(same->getOperand(0)))
              return std::nullopt;
            return find(same->getOperand(0));
          })
      // One of several values.
      .Case([&](ConcatOp concat) -> Found {
        IntegerRange range = find(concat.getInputs().front());
        for (Value input : concat.getInputs().drop_front())
          range = unite(range, find(input));
        return range;
      })
      .Case([&](SelectOp select) -> Found {
        return unite(find(select->getOperand(1)), find(select->getOperand(2)));
      })
      .Case<AddOp, SubOp, MulOp, MaximumOp, MinimumOp>(
          [&](Operation *binary) { return computeBinary(binary); })
      .Case([&](ModOp mod) { return computeMod(mod); })
      // Of n elements in [low, high].
      .Case([&](ReduceSumOp sum) {
        int64_t results = typeOf(sum.getResult()).getNumElements();
        int64_t elements = typeOf(sum.getOperand()).getNumElements();
        return computeSum(sum, results == 0 ? 0 : elements / results);
      })
      .Case([&](CumSumOp sum) {
        return computeSum(sum, typeOf(sum->getResult(0)).getNumElements());
      })
      // What an index that names no element gives is 0.
      .Case<GatherOp, GatherElementsOp>([&](Operation *gather) -> Found {
        return unite(find(gather->getOperand(0)), {0, 0});
      })
      .Default([](Operation *) { return std::nullopt; });
}

IntegerRange RangeFinder::find(Value value) {
  const IntegerRange all = typeRange(elementOf(value));
  if (auto given = known.find(value); given != known.end())
    return given->second;
  Operation *op = value.getDefiningOp();
  if (!op || found.size() >= kMostValues)
    return all;
  // A value of its own operands, which there is none of in a valid graph, has
  // any.
  auto [entry, isNew] = found.try_emplace(value, all);
  if (!isNew)
    return entry->second;
  std::optional<IntegerRange> range = compute(op);
  // What leaves the type wraps around.
  if (range && all.contains(*range))
    found[value] = *range;
  return found[value];
}

IntegerRange mpc::onnx_frontend::findRange(Value value,
                                           const KnownRanges &known) {
  return RangeFinder(known).find(value);
}
