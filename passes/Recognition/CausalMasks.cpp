// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/CausalMasks.h"

#include "passes/Recognition/Staircase.h"

using namespace mlir;
using namespace mpc;

// Finds the causal offset of `value` if all its matrices [queries, keys] are
// the same staircase: query i sees the keys up to i + offset. `isSeen` tells if
// an element of `value` means a seen key. nullopt if `value` is no such
// staircase.
static std::optional<int64_t>
findOffset(Value value, ArrayRef<int64_t> scores,
           llvm::function_ref<bool(Attribute)> isSeen) {
  ArrayRef<int64_t> shape = shapeOf(value);
  // A matrix with one row has no causal order: its query sees all keys.
  if (shape.size() < 2 || shape.take_back(2) != scores.take_back(2) ||
      shape[shape.size() - 2] < 2)
    return std::nullopt;
  std::optional<Staircase> stairs = findStaircase(value);
  // The offset must not be negative, so that the first query sees a key.
  if (!stairs || !stairs->offset || *stairs->offset < 0 ||
      !isSeen(stairs->near) || isSeen(stairs->far))
    return std::nullopt;
  return stairs->offset;
}

std::optional<int64_t>
mpc::findCausalOffset(Value mask, ArrayRef<int64_t> scores, bool isInverted) {
  if (!elementOf(mask).isInteger(1))
    return std::nullopt;
  return findOffset(mask, scores, [&](Attribute element) {
    return cast<IntegerAttr>(element).getValue().isZero() == isInverted;
  });
}

std::optional<int64_t> mpc::findCausalOffsetOfBias(Value bias,
                                                   ArrayRef<int64_t> scores,
                                                   double low,
                                                   bool isSubtracted) {
  bool hidesEnough = true;
  std::optional<int64_t> offset =
      findOffset(bias, scores, [&](Attribute element) {
        auto number = dyn_cast<FloatAttr>(element);
        if (number && number.getValue().isZero())
          return true;
        const double added =
            number ? number.getValueAsDouble() * (isSubtracted ? -1 : 1) : 0;
        hidesEnough &= number && added <= low;
        return false;
      });
  return hidesEnough ? offset : std::nullopt;
}

std::optional<int64_t> mpc::findCausalOffsetOfFactor(Value factor,
                                                     ArrayRef<int64_t> scores) {
  bool isChoice = true;
  std::optional<int64_t> offset =
      findOffset(factor, scores, [&](Attribute element) {
        auto number = dyn_cast<FloatAttr>(element);
        const bool isSeen = number && number.getValueAsDouble() == 1;
        isChoice &= isSeen || (number && number.getValue().isZero());
        return isSeen;
      });
  return isChoice ? offset : std::nullopt;
}
