// Ops that compute each element of a tensor from one element of another and
// from scalars: it does not matter to them in which order or shape elements
// are, so transposes and reshapes can change places with them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_SCALING_H
#define MPC_PASSES_FUSION_SCALING_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/PatternMatch.h"

namespace mpc {

/// The operand of whose elements `op` computes its result's, where its other
/// operands are one value each: of x * 0.5, for example, x. Null for any op
/// that depends on more, or on where an element is.
mlir::OpOperand *findScaledOperand(mlir::Operation *op);

/// The result of `op` for `input` in place of what it scales, in the shape of
/// `input`.
mlir::Value scaleInstead(mlir::Operation *op, mlir::Value input,
                         mlir::OpBuilder &builder);

} // namespace mpc

#endif // MPC_PASSES_FUSION_SCALING_H
