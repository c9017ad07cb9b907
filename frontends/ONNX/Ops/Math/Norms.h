// Powers and roots: what norms are made of, over axes and over windows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_MATH_NORMS_H
#define MPC_FRONTENDS_ONNX_OPS_MATH_NORMS_H

#include "frontends/ONNX/Importer/Assemble.h"

namespace mpc::onnx_frontend {

/// Output 0 as `compute` makes it of input 0: of 16-bit floats in f32, as what
/// lies between may not fit them. The square of 300 is no f16, though the root
/// of it is.
mlir::LogicalResult
defineInF32(NodeImporter &node,
            llvm::function_ref<mlir::Value(mlir::Value)> compute);

/// |x|^p. The square has no slope that is infinite or NaN.
mlir::Value powerOf(NodeImporter &node, mlir::Value x, int64_t p);

/// The p-th root of x, which is not negative; its slope at 0 is 0, as that of
/// PyTorch's norms, where the root's own would be infinite.
mlir::Value flatRoot(NodeImporter &node, mlir::Value x, int64_t p);

/// Attribute 'p' of norms; a finding where it is no power.
mlir::FailureOr<int64_t> readPower(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_MATH_NORMS_H
