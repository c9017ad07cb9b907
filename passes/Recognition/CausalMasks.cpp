// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/CausalMasks.h"

#include "passes/Recognition/Staircase.h"

using namespace mlir;
using namespace mpc;

// Finds the causal offset of a value whose matrices are all the same staircase.
// `isSeen` must be true for the elements before the step, and false for the
// others. nullopt if the value has another form.
static std::optional<int64_t>
findOffset(Value value, ArrayRef<int64_t> scores,
           llvm::function_ref<bool(Attribute)> isSeen) {
  ArrayRef<int64_t> shape = shapeOf(value);
  // A single query that sees all keys needs no mask.
  if (shape.size() < 2 || shape.take_back(2) != scores.take_back(2) ||
      shape[shape.size() - 2] < 2)
    return std::nullopt;
  std::optional<Staircase> stairs = findStaircase(value);
  // A causal offset must let the first query see a key.
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
