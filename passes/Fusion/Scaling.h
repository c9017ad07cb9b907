// Ops that scale: each result element depends on one element of a tensor and on
// scalars, as in x * 0.5. Order and shape of the elements do not matter to
// scaling, so it can change places with transposes and reshapes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_SCALING_H
#define MPC_PASSES_FUSION_SCALING_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/PatternMatch.h"

namespace mpc {

/// Returns the operand that `op` scales: x for x * 0.5. Null if a result
/// element depends on several elements, or on the position of the element.
mlir::OpOperand *findScaledOperand(mlir::Operation *op);

/// Creates a copy of `op` that scales `input` instead, and returns the result,
/// in the shape of `input`.
mlir::Value scaleInstead(mlir::Operation *op, mlir::Value input,
                         mlir::OpBuilder &builder);

} // namespace mpc

#endif // MPC_PASSES_FUSION_SCALING_H
