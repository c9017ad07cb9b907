// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/IntegerRanges.h"

#include "compiler/Dialect/MPC/Fold/ConstantElements.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

/// Limits the values that one query visits.
static constexpr size_t kMostValues = 256;

// The range of a type, clamped to signed 64 bits.
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

namespace {
class RangeFinder {
public:
  explicit RangeFinder(const KnownRanges &known) : known(known) {}

  IntegerRange find(Value value);

private:
  std::optional<IntegerRange> compute(Operation *op);

  const KnownRanges &known;
  llvm::DenseMap<Value, IntegerRange> found;
};
} // namespace

// The range of a constant's elements; nullopt if unreadable or empty.
static std::optional<IntegerRange> readConstant(ConstantOp op) {
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

std::optional<IntegerRange> RangeFinder::compute(Operation *op) {
  if (auto constant = dyn_cast<ConstantOp>(op))
    return readConstant(constant);
  return inferIntegerRange(
      op, [&](unsigned operand) { return find(op->getOperand(operand)); });
}

IntegerRange RangeFinder::find(Value value) {
  const IntegerRange all = typeRange(elementOf(value));
  if (auto given = known.find(value); given != known.end())
    return given->second;
  Operation *op = value.getDefiningOp();
  if (!op || found.size() >= kMostValues)
    return all;
  // Insert the full range first: in an invalid graph with a cycle, this ends
  // the recursion.
  auto [entry, isNew] = found.try_emplace(value, all);
  if (!isNew)
    return entry->second;
  std::optional<IntegerRange> range = compute(op);
  // If the computed range exceeds the type, results may wrap around, so keep
  // the full range.
  if (range && all.contains(*range))
    found[value] = *range;
  return found[value];
}

IntegerRange mpc::onnx_frontend::findRange(Value value,
                                           const KnownRanges &known) {
  return RangeFinder(known).find(value);
}
