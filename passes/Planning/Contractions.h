// Contractions as steps of a plan: geometry and tile sizes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_CONTRACTIONS_H
#define MPC_PASSES_PLANNING_CONTRACTIONS_H

#include "compiler/Dialect/Plan/Plan.h"

namespace mpc {

/// Where a contraction's result goes: to a buffer, or through an epilogue.
struct ContractionTarget {
  mlir::Value result;
  mlir::FlatSymbolRefAttr epilogue;
  llvm::SmallVector<mlir::Value> inputs, outputs;
};

/// Adds the step for `op`, a matrix product or a convolution in NHWC, on the
/// buffers of its two operands.
mlir::LogicalResult emitContraction(mlir::OpBuilder &builder,
                                    mlir::Operation *op, mlir::Value first,
                                    mlir::Value second,
                                    const ContractionTarget &target);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_CONTRACTIONS_H
