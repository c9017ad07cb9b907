// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/CausalMasks.h"

#include "passes/Recognition/Match.h"

#include "compiler/Dialect/MPC/ConstantNumber.h"

#include <cstring>

using namespace mlir;
using namespace mpc;

// The offset by which `isSeen`, of an element's position in `shape`, is true of
// keys up to the query's: of 3 queries, which see keys {0}, {0, 1} and {0, 1,
// 2}, the offset is 0.
static std::optional<int64_t>
findOffset(ArrayRef<int64_t> shape, ArrayRef<int64_t> scores,
           llvm::function_ref<bool(int64_t)> isSeen) {
  if (shape.size() < 2 || shape.take_back(2) != scores.take_back(2))
    return std::nullopt;
  // The first query tells the offset.
  int64_t queries = shape[shape.size() - 2], keys = shape.back(), offset = -1;
  while (offset + 1 < keys && isSeen(offset + 1))
    ++offset;
  // One query that sees all keys needs no mask, and none that sees no key is
  // taken for one.
  if (offset < 0 || queries < 2)
    return std::nullopt;
  // All others follow, in each of the matrices.
  const int64_t elements = ShapedType::getNumElements(shape);
  for (int64_t row = 0; row < elements / keys; ++row)
    for (int64_t j = 0; j < keys; ++j)
      if (isSeen(row * keys + j) != (j <= row % queries + offset))
        return std::nullopt;
  return offset;
}

std::optional<int64_t>
mpc::findCausalOffset(Value mask, ArrayRef<int64_t> scores, bool isInverted) {
  auto constant = mask.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue())
                           : DenseIntElementsAttr();
  if (!elements || elements.isSplat() ||
      !elements.getElementType().isInteger(1))
    return std::nullopt;
  auto values = elements.getValues<bool>();
  return findOffset(shapeOf(mask), scores, [&](int64_t position) {
    return values[position] != isInverted;
  });
}

namespace {
/// The numbers of a constant of f32; none where it is of another type.
class Numbers {
public:
  explicit Numbers(Value value) {
    auto constant = value.getDefiningOp<ConstantOp>();
    if (!constant || !elementOf(value).isF32())
      return;
    ArrayRef<char> dense = getDenseBytes(constant.getValue());
    const size_t elements = typeOf(value).getNumElements();
    if (dense.size() == elements * sizeof(float))
      bytes = dense;
  }
  int64_t size() const { return bytes.size() / sizeof(float); }
  float at(int64_t position) const {
    float number;
    std::memcpy(&number, bytes.data() + position * sizeof(float),
                sizeof(float));
    return number;
  }

private:
  ArrayRef<char> bytes;
};

/// What a mask chooses: 0 for a key that is seen, `low` for one that is hidden.
struct ChosenBias {
  Value mask;
  bool isInverted;
  double low;
};
} // namespace

// select(mask, 0, low) or select(mask, low, 0)
static std::optional<ChosenBias> findChoice(Value bias) {
  auto select = bias.getDefiningOp<SelectOp>();
  if (!select)
    return std::nullopt;
  std::optional<double> onTrue = getConstantNumber(select.getOnTrue());
  std::optional<double> onFalse = getConstantNumber(select.getOnFalse());
  if (onTrue == 0.0 && onFalse)
    return ChosenBias{select.getCondition(), false, *onFalse};
  if (onFalse == 0.0 && onTrue)
    return ChosenBias{select.getCondition(), true, *onTrue};
  return std::nullopt;
}

std::optional<int64_t>
mpc::findCausalOffsetOfBias(Value bias, ArrayRef<int64_t> scores, double low) {
  if (std::optional<ChosenBias> choice = findChoice(bias))
    return choice->low <= low
               ? findCausalOffset(choice->mask, scores, choice->isInverted)
               : std::nullopt;
  Numbers numbers(bias);
  if (numbers.size() == 0)
    return std::nullopt;
  for (int64_t i = 0; i < numbers.size(); ++i)
    if (numbers.at(i) != 0 && !(numbers.at(i) <= low))
      return std::nullopt;
  return findOffset(shapeOf(bias), scores, [&](int64_t position) {
    return numbers.at(position) == 0;
  });
}
