// Verifies that the matrices of a product lie within the buffers, and that
// extents fit the runtime's 32-bit counters.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_PRODUCTBOUNDS_H
#define MPC_COMPILER_DIALECT_PLAN_PRODUCTBOUNDS_H

#include "compiler/Dialect/Plan/Plan.h"

namespace mpc::plan {

/// Succeeds if every element that `op` reads of a and b, and writes of c, lies
/// in the buffer, for all indices of all batch axes. The last element is at
/// offset + the sum of (extent - 1) * stride. With an epilogue, which takes
/// tiles instead of c, c counts as having as many elements as the product. Each
/// outer axis must already have a stride per operand.
llvm::LogicalResult verifyBounds(MatMulOp op);

/// Succeeds if libraries can step through the input of `op`; the runtime
/// requires this of a plan.
llvm::LogicalResult verifyBounds(ConvOp op);

/// Fails unless `epilogue`, if still a kernel on tensors, takes tiles of a
/// result with the rows and columns of `op`.
llvm::LogicalResult verifyTiles(MatMulOp op, mlir::FlatSymbolRefAttr epilogue,
                                mlir::SymbolTableCollection &symbols);
llvm::LogicalResult verifyTiles(ConvOp op, mlir::FlatSymbolRefAttr epilogue,
                                mlir::SymbolTableCollection &symbols);

} // namespace mpc::plan

#endif // MPC_COMPILER_DIALECT_PLAN_PRODUCTBOUNDS_H
