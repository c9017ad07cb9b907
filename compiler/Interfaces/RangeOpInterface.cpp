// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/RangeOpInterface.h"

#include "compiler/Interfaces/PrecisionOpInterface.h"

#include <algorithm>
#include <numeric>

#include "compiler/Interfaces/RangeOpInterface.cpp.inc"

using namespace mlir;
using namespace mpc;

Bounds mpc::unite(Bounds a, Bounds b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

IntegerRange mpc::unite(IntegerRange a, IntegerRange b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

//===----------------------------------------------------------------------===//
// Ops that move elements
//===----------------------------------------------------------------------===//

static bool movesElements(Operation *op) {
  auto precise = dyn_cast<PrecisionOpInterface>(op);
  return precise && precise.movesElements();
}

std::optional<Bounds> mpc::inferMovedRange(Operation *op,
                                           ArrayRef<Bounds> operands) {
  if (!movesElements(op) || operands.empty())
    return std::nullopt;
  return std::accumulate(operands.begin() + 1, operands.end(), operands[0],
                         [](Bounds a, Bounds b) { return unite(a, b); });
}

SmallVector<Value> mpc::listMoved(Operation *op) {
  if (!movesElements(op))
    return {};
  return SmallVector<Value>(op->getOperands());
}

//===----------------------------------------------------------------------===//
// Any op
//===----------------------------------------------------------------------===//

std::optional<Bounds> mpc::inferRange(Operation *op,
                                      ArrayRef<Bounds> operands) {
  if (auto ranged = dyn_cast<RangeOpInterface>(op))
    return ranged.inferRange(operands);
  return inferMovedRange(op, operands);
}

bool mpc::holdsConstant(Operation *op) {
  auto ranged = dyn_cast<RangeOpInterface>(op);
  return ranged && ranged.holdsConstant();
}

std::optional<IntegerRange> mpc::inferIntegerRange(Operation *op,
                                                   FindIntegerRange operand) {
  auto ranged = dyn_cast<RangeOpInterface>(op);
  return ranged ? ranged.inferIntegerRange(operand) : std::nullopt;
}

SmallVector<Value> mpc::listHandedOn(Operation *op) {
  if (auto ranged = dyn_cast<RangeOpInterface>(op))
    return ranged.listHandedOn();
  return listMoved(op);
}

std::optional<Bounds> mpc::getSaturation(Value value) {
  auto ranged = dyn_cast_if_present<RangeOpInterface>(value.getDefiningOp());
  return ranged ? ranged.getSaturation() : std::nullopt;
}
