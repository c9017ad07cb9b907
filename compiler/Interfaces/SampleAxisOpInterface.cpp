// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/SampleAxisOpInterface.h"

#include "compiler/Interfaces/RegionOpInterface.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"

#include "compiler/Interfaces/SampleAxisOpInterface.cpp.inc"

using namespace mlir;
using namespace mpc;

std::optional<SampleAxis> mpc::followBroadcastSamples(Operation *op,
                                                      OperandSamples operands) {
  std::optional<SampleAxis> result;
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  for (auto [operand, place] : llvm::zip_equal(op->getOperands(), operands)) {
    if (!place)
      continue;
    // Operands of lower rank align with the last axes of the result, by NumPy's
    // rules.
    SampleAxis own = *place;
    auto type = cast<RankedTensorType>(operand.getType());
    int64_t extent = type.getShape()[own.axis];
    own.axis += static_cast<int64_t>(shape.size()) - type.getRank();
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
