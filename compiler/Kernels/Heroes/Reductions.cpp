// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/Heroes/Reductions.h"

using namespace mlir;
using namespace mpc;

LogicalResult heroes::ReductionHero::verify(Operation *op) const {
  auto input = cast<RankedTensorType>(op->getOperand(0).getType());
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  if (isa<SumToSizeOp>(op) || result.getRank() != input.getRank())
    return op->emitOpError("expected a reduction that keeps its axes, found ")
           << input << " to " << result
           << ", run mpc-normalize-reductions first";
  if (!getReductionSpace(op))
    return op->emitOpError("expected adjacent reduced axes, found ")
           << input << " to " << result;
  return success();
}
