// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/SampleAxisOpInterface.h"

#include "compiler/Interfaces/RegionOpInterface.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"

#include "compiler/Interfaces/SampleAxisOpInterface.cpp.inc"

using namespace mlir;
using namespace mpc;

static ArrayRef<int64_t> getShapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

std::optional<SampleAxis> mpc::followBroadcastSamples(Operation *op,
                                                      OperandSamples operands) {
  std::optional<SampleAxis> result;
  ArrayRef<int64_t> shape = getShapeOf(op->getResult(0));
  for (auto [operand, place] : llvm::zip_equal(op->getOperands(), operands)) {
    if (!place)
      continue;
    // Axes align from the last one.
    SampleAxis own = *place;
    int64_t extent = getShapeOf(operand)[own.axis];
    own.axis += shape.size() - getShapeOf(operand).size();
    if (shape[own.axis] != extent || (result && !(*result == own)))
      return std::nullopt;
    result = own;
  }
  return result;
}

std::optional<SampleAxis>
mpc::followSamples(Operation *op, OperandSamples operands, int64_t batch) {
  if (op->getNumResults() == 0 || op->getNumOperands() == 0)
    return std::nullopt;
  if (auto followed = dyn_cast<SampleAxisOpInterface>(op))
    return followed.followSamples(operands, batch);
  if (hasRole(op, RegionRole::Elementwise))
    return followBroadcastSamples(op, operands);
  return std::nullopt;
}
