// Elements of a row that a row kernel keeps from one pass to the next.
//
// A row kernel passes over a row once for each reduction that follows another,
// and once to store results. Softmax has three passes: the maximum, the sum of
// exp(x - maximum), and exp(x - maximum) / sum. What takes more than a few
// instructions, here the exponential, is computed in the first pass that needs
// it and read in later ones from the worker's memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_ROWSCRATCH_H
#define MPC_COMPILER_KERNELS_ROWSCRATCH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// The elements of one row of the result of `op`: `bytes` of the worker's
/// memory from byte `offset` on.
struct RowScratch {
  mlir::Operation *op;
  int64_t offset, bytes;
};

/// What `kernel`, a row_reduce of no segments, keeps, in the order of its ops.
/// Nothing where rows are longer than a cache, nor where columns are added up
/// beside rows (ColumnSums.h), which takes that memory.
llvm::SmallVector<RowScratch> findRowScratch(mlir::func::FuncOp kernel);

/// The bytes of all of it.
int64_t getRowScratchBytes(mlir::func::FuncOp kernel);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_ROWSCRATCH_H
