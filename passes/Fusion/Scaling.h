// Ops that compute each element from one element of a tensor and from scalars.
// Order and shape of the elements do not matter to such ops, so transposes and
// reshapes can move across.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_SCALING_H
#define MPC_PASSES_FUSION_SCALING_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/PatternMatch.h"

namespace mpc {

/// Returns the operand that `op` scales: each result element depends on one
/// element of that operand and on scalars. For x * 0.5, returns x. Null if `op`
/// depends on more, or on an element's position.
mlir::OpOperand *findScaledOperand(mlir::Operation *op);

/// Creates `op` with `input` in place of the scaled operand, in the shape of
/// `input`, and returns the result.
mlir::Value scaleInstead(mlir::Operation *op, mlir::Value input,
                         mlir::OpBuilder &builder);

} // namespace mpc

#endif // MPC_PASSES_FUSION_SCALING_H
