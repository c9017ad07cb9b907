// Helpers for norms over axes and windows: powers and roots.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_MATH_NORMS_H
#define MPC_FRONTENDS_ONNX_OPS_MATH_NORMS_H

#include "frontends/ONNX/Importer/Assemble.h"

namespace mpc::onnx_frontend {

/// Defines output 0 as `compute` of input 0. 16-bit floats are computed in f32,
/// because intermediates may overflow: the square of 300 exceeds f16, its root
/// does not.
mlir::LogicalResult
defineInF32(NodeImporter &node,
            llvm::function_ref<mlir::Value(mlir::Value)> compute);

/// Computes |x|^p. For p = 2 the gradient is finite everywhere.
mlir::Value powerOf(NodeImporter &node, mlir::Value x, int64_t p);

/// Computes the p-th root of x >= 0. The slope at 0 is 0, as for PyTorch's
/// norms; the root's own slope is infinite.
mlir::Value flatRoot(NodeImporter &node, mlir::Value x, int64_t p);

/// Reads attribute 'p' of norms; reports an error if p < 1.
mlir::FailureOr<int64_t> readPower(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_MATH_NORMS_H
