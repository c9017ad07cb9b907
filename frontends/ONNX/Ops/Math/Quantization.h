// Helpers for quantized numbers: scales, zero points and rounding.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_MATH_QUANTIZATION_H
#define MPC_FRONTENDS_ONNX_OPS_MATH_QUANTIZATION_H

#include "frontends/ONNX/Importer/Assemble.h"

namespace mpc::onnx_frontend {

/// True for integers of 8 to `mostBits` bits.
bool isQuantized(mlir::Type type, unsigned mostBits);

/// Casts to f32, the type in which scales are applied. ONNX has no scales of
/// f64.
mlir::Value toSingle(NodeImporter &node, mlir::Value value);

/// Casts to i64, in which differences of quantized numbers are exact.
mlir::Value toWhole(NodeImporter &node, mlir::Value value);

/// Rounds `quotient` to the nearest integer, ties to even, adds the zero point
/// (null if none), and clamps the sum to the range of `type`.
mlir::Value saturate(NodeImporter &node, mlir::Value quotient,
                     mlir::Value zeroPoint, mlir::Type type);

/// Reshapes input `input`, a scale or zero point, to broadcast to `shape`. The
/// input has a single number, a number per element of `axis`, or, if `block` is
/// not 0, a number per `block` elements of `axis`.
mlir::FailureOr<mlir::Value> spreadScale(NodeImporter &node, unsigned input,
                                         llvm::ArrayRef<int64_t> shape,
                                         int64_t axis, int64_t block);

/// Returns `value`, quantized numbers as floats, perhaps scaled. Marks a value
/// that has folded to a constant.
mlir::Value markDequantized(mlir::Value value);

mlir::LogicalResult importMatMulNBits(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_MATH_QUANTIZATION_H
