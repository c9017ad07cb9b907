// Estimates times with a roofline: the slower of memory and arithmetic.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/PrecisionCost.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

namespace {
// Nominal rates of one server core, in units per nanosecond.
constexpr double kBytesPerNs = 20.0;
constexpr double kFlopsPerNs = 100.0;
// Speed of low products relative to float32: with bf16 dot-product
// instructions; in bf16 with AMX tiles; and without either, when each operand
// is converted first.
constexpr double kNativeSpeedup = 2.0;
constexpr double kTileSpeedup = 14.0;
constexpr double kConversionSlowdown = 0.5;
// Number of bf16 products per product of f16 or f32 matrices on AMX tiles,
// which multiply only bf16. An f16 number is the sum of two bf16 numbers, an
// f32 number of three.
constexpr double kTileProductsF16 = 4.0;
constexpr double kTileProductsF32 = 6.0;
} // namespace

static double getContractionRate(Operation *op, FloatType type,
                                 const TargetInfo &target) {
  if (target.hasAMX() && (type.isBF16() || isa<MatMulOp>(op)))
    return kFlopsPerNs * kTileSpeedup /
           (type.isBF16()  ? 1
            : type.isF16() ? kTileProductsF16
                           : kTileProductsF32);
  if (type.getWidth() >= 32)
    return kFlopsPerNs;
  return kFlopsPerNs * (target.hasNativeContraction(type)
                            ? kNativeSpeedup
                            : kConversionSlowdown);
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
  double flops = op.countFlops();
  auto roofline = [&](double bytes, FloatType type) {
    return std::max(bytes / kBytesPerNs,
                    flops / getContractionRate(op, type, target));
  };
  auto wide = Float32Type::get(op->getContext());
  PrecisionCost cost;
  cost.low = std::llround(roofline(bytesLow, low));
  cost.high = std::llround(roofline(bytesHigh, wide));
  cost.cast = std::llround(resultBytes / kBytesPerNs);
  return cost;
}
