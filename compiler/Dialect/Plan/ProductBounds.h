// Whether the matrices of a product lie within its buffers, and whether what is
// counted in 32 bits fits these.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_PRODUCTBOUNDS_H
#define MPC_COMPILER_DIALECT_PLAN_PRODUCTBOUNDS_H

#include "compiler/Dialect/Plan/Plan.h"

namespace mpc::plan {

/// Succeeds if every element that `op` reads of a and b, and writes of c, is
/// one of that buffer, for all indices of all axes of the batch: the last one
/// lies at offset + the sum of (extent - 1) * stride. With an epilogue, which
/// gets tiles in place of c, c is as many elements as the product has. Outer
/// axes must have a stride of each operand.
llvm::LogicalResult verifyBounds(MatMulOp op);

/// Succeeds if libraries can step through the input of `op`, as the runtime
/// asks of a plan.
llvm::LogicalResult verifyBounds(ConvOp op);

/// Fails unless `epilogue`, where it is a kernel on tensors still, takes tiles
/// of a result of as many rows and columns as `op` makes.
llvm::LogicalResult verifyTiles(MatMulOp op, mlir::FlatSymbolRefAttr epilogue,
                                mlir::SymbolTableCollection &symbols);
llvm::LogicalResult verifyTiles(ConvOp op, mlir::FlatSymbolRefAttr epilogue,
                                mlir::SymbolTableCollection &symbols);

} // namespace mpc::plan

#endif // MPC_COMPILER_DIALECT_PLAN_PRODUCTBOUNDS_H
