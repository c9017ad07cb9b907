// Estimates times as sums: bytes of memory, and multiplications at the rate of
// the kernels that run.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/PrecisionCost.h"

#include "compiler/Kernels/MachineRates.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

// Returns the time of the multiplications of `op` with operands of `type`; 0 if
// `op` is no contraction.
static double getMultiplicationTime(PrecisionOpInterface op, FloatType type,
                                    const TargetInfo &target) {
  const MachineRates &rates = getMachineRates(target);
  auto contraction = dyn_cast<ContractionOpInterface>(op.getOperation());
  if (!contraction)
    return op.countFlops() / rates.products.get(type);
  const ContractionSpace space = contraction.getContractionSpace();
  if (isa<MatMulOp, GemmOp>(op))
    return getProductTime({space.rows, space.columns, space.depth}, type,
                          target);
  return 2.0 * static_cast<double>(space.rows) *
         static_cast<double>(space.columns) * static_cast<double>(space.depth) /
         rates.convolutions.get(type);
}

// Returns the bytes of a tensor in the model's type. If `low` is given, counts
// float32 elements as elements of type `low`.
static double countBytes(Value value, FloatType low, const ModelTypes &types) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return 0;
  Type element = types.lookup(value);
  if (!element)
    element = type.getElementType();
  if (low && element.isF32())
    element = low;
  double bits = std::max(8u, element.getIntOrFloatBitWidth());
  return static_cast<double>(type.getNumElements()) * bits / 8;
}

PrecisionCost mpc::estimateCost(PrecisionOpInterface op, FloatType low,
                                const TargetInfo &target,
                                const ModelTypes &types) {
  // Bytes read and written, with float32 tensors in `low` and as they are.
  double bytesLow = 0, bytesHigh = 0, resultBytes = 0;
  for (Value value : op->getOperands()) {
    bytesLow += countBytes(value, low, types);
    bytesHigh += countBytes(value, {}, types);
  }
  for (Value value : op->getResults()) {
    double inLow = countBytes(value, low, types);
    double inHigh = countBytes(value, {}, types);
    bytesLow += inLow;
    bytesHigh += inHigh;
    resultBytes += inLow + inHigh;
  }
  const double rate = getMachineRates(target).memoryBytes;
  auto wide = Float32Type::get(op->getContext());
  PrecisionCost cost;
  cost.low =
      std::llround(bytesLow / rate + getMultiplicationTime(op, low, target));
  cost.high =
      std::llround(bytesHigh / rate + getMultiplicationTime(op, wide, target));
  cost.cast = std::llround(resultBytes / rate);
  return cost;
}
