// Verifies that the matrices of a product lie within their buffers, and that
// the extents of a convolution fit the 32-bit counters of libraries.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_PRODUCTBOUNDS_H
#define MPC_COMPILER_DIALECT_PLAN_PRODUCTBOUNDS_H

#include "compiler/Dialect/Plan/Plan.h"

namespace mpc::plan {

/// Succeeds if every element of a and b that `op` reads, and of c that it
/// writes, lies within the operand's buffer, for all batches. The last element
/// is at offset + the sum of (extent - 1) * stride over all axes. If `op` has
/// an epilogue and thus no buffer for c, the bound for c is the number of
/// results. `op` must have a stride of each operand for each outer batch axis.
llvm::LogicalResult verifyBounds(MatMulOp op);

/// Succeeds if input extent, padding and stride of `op` are small enough for
/// the 32-bit counters of libraries. The runtime rejects other plans.
llvm::LogicalResult verifyBounds(ConvOp op);

/// Fails if the kernel `epilogue` was built for a result of another shape than
/// that of `op`. Succeeds if the kernel is already lowered, since its shape is
/// no longer known.
llvm::LogicalResult verifyTiles(MatMulOp op, mlir::FlatSymbolRefAttr epilogue,
                                mlir::SymbolTableCollection &symbols);
llvm::LogicalResult verifyTiles(ConvOp op, mlir::FlatSymbolRefAttr epilogue,
                                mlir::SymbolTableCollection &symbols);

} // namespace mpc::plan

#endif // MPC_COMPILER_DIALECT_PLAN_PRODUCTBOUNDS_H
